//! `margay proxy` while the schema changes, and in several databases.

mod common;
#[path = "common/proxying.rs"]
mod proxying;

use std::fs;
use std::thread;

use common::margay;
use postgres::Client;
use proxying::{SHOP, Waiting, direct, in_database, python, server};
use serde_json::Value;

/// A Django project with migrations, one of which writes rows, and tests of both kinds.
const PROJECT: [(&str, &str); 7] = [
    (
        "manage.py",
        "import os, sys\nos.environ.setdefault('DJANGO_SETTINGS_MODULE', 'settings')\n\
         from django.core.management import execute_from_command_line\nexecute_from_command_line(sys.argv)\n",
    ),
    (
        "settings.py",
        r#"
import os
SECRET_KEY = "x"
USE_TZ = True
INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth", "django.contrib.sessions", "shop"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DATABASES = {"default": {
    "ENGINE": "django.db.backends.postgresql", "NAME": os.environ["PGDATABASE"], "USER": os.environ["PGUSER"],
    "PASSWORD": os.environ.get("PGPASSWORD", ""), "HOST": os.environ["PGHOST"], "PORT": os.environ["PGPORT"]}}
"#,
    ),
    ("shop/__init__.py", ""),
    (
        "shop/models.py",
        r#"
from django.db import models
class Item(models.Model):
    name = models.CharField(max_length=40, unique=True)
    pieces = models.IntegerField(default=0)
    class Meta:
        constraints = [models.CheckConstraint(condition=models.Q(pieces__gte=0), name="enough")]
class Sale(models.Model):
    item = models.ForeignKey(Item, on_delete=models.CASCADE)
    pieces = models.IntegerField()
    at = models.DateTimeField(auto_now_add=True)
"#,
    ),
    ("shop/migrations/__init__.py", ""),
    (
        "shop/migrations/0001_initial.py",
        r#"
from django.db import migrations, models
def stock(apps, editor):
    apps.get_model("shop", "Item").objects.create(name="bolt", pieces=10)
class Migration(migrations.Migration):
    initial = True
    operations = [
        migrations.CreateModel("Item", [
            ("id", models.BigAutoField(primary_key=True)), ("name", models.CharField(max_length=40, unique=True))]),
        migrations.AddField("Item", "pieces", models.IntegerField(default=0)),
        migrations.CreateModel("Sale", [
            ("id", models.BigAutoField(primary_key=True)),
            ("item", models.ForeignKey(to="shop.item", on_delete=models.CASCADE)),
            ("pieces", models.IntegerField()), ("at", models.DateTimeField(auto_now_add=True))]),
        migrations.AddConstraint("Item", models.CheckConstraint(condition=models.Q(pieces__gte=0), name="enough")),
        migrations.RunPython(stock, migrations.RunPython.noop),
    ]
"#,
    ),
    (
        "shop/tests.py",
        r#"
import threading
from django.contrib.auth.models import User
from django.db import IntegrityError, connection, transaction
from django.test import TestCase, TransactionTestCase
from shop.models import Item, Sale
def sell(item, pieces):
    with transaction.atomic():
        item = Item.objects.select_for_update().get(id=item)
        item.pieces -= pieces
        item.save()
        Sale.objects.create(item=item, pieces=pieces)
class Items(TestCase):
    def setUp(self):
        self.item = Item.objects.create(name="nut", pieces=5)
    def test_sell(self):
        sell(self.item.id, 2)
        self.assertEqual(Item.objects.get(id=self.item.id).pieces, 3)
        self.assertEqual(Sale.objects.filter(item=self.item).count(), 1)
    def test_too_many(self):
        with self.assertRaises(IntegrityError), transaction.atomic():
            sell(self.item.id, 9)
        self.assertEqual(Item.objects.get(id=self.item.id).pieces, 5)
    def test_user(self):
        User.objects.create_user("me", password="secret")
        self.assertTrue(self.client.login(username="me", password="secret"))
class Customers(TransactionTestCase):
    def run_two(self):
        item = Item.objects.create(name="screw", pieces=10).id
        def customer():
            for _ in range(3):
                sell(item, 1)
            connection.close()
        both = [threading.Thread(target=customer) for _ in range(2)]
        [one.start() for one in both]
        [one.join() for one in both]
        self.assertEqual(Item.objects.get(id=item).pieces, 4)
    def test_two(self):
        self.run_two()
    def test_two_again(self):
        self.run_two()
"#,
    ),
];

/// The suite makes its own database, migrates it, empties it between tests, and drops it in the
/// end.
#[test]
fn a_django_test_suite_gets_a_verdict_coverage_and_a_report() {
    let Some(python) = python() else {
        return println!("SKIPPED: psycopg, SQLAlchemy and Django are not installed");
    };
    let Some(server) = server("") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in PROJECT {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }
    let at = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (page, record, manage) = (at("page.html"), at("run.jsonl"), at("manage.py"));
    let options = ["--require-coverage", "70", "--report", &page, "--record", &record, "--json"];
    let command = ["--", python.to_str().expect("text"), &manage, "test", "shop"];
    let run = margay([&["proxy", server.url()][..], &options, &command].concat());
    let told: Value = run
        .stdout
        .lines()
        .rfind(|line| line.starts_with('{'))
        .map_or(Value::Null, |line| serde_json::from_str(line).expect("JSON"));
    assert_eq!((run.status, told["run"]["command"].as_i64()), (0, Some(0)), "{told} {}", run.stderr);
    assert_eq!(told["run"]["concerns"], serde_json::json!([]), "{told}");
    assert!(run.stderr.contains("Ran 5 tests"), "{}", run.stderr);
    assert!(fs::read_to_string(&page).expect("a report").contains("<html"));
    let parts = told["run"]["parts"].as_array().expect("parts");
    assert!(
        parts.iter().any(|part| part["database"].as_str().is_some_and(|it| it.starts_with("test_"))),
        "{told}"
    );
    let files = fs::read_dir(folder.path()).expect("a folder").flatten();
    let files = files.filter(|file| file.file_name().to_string_lossy().starts_with("run.")).count();
    assert_eq!(files, parts.len(), "every part has its file");
}

/// What one client does: a sale that gets lost, around a change of the schema.
fn lost_update(one: &mut Client, other: &mut Client) {
    for client in [&mut *one, &mut *other] {
        client.batch_execute("BEGIN").expect("a transaction");
        client.query("SELECT left_over FROM stock WHERE id = $1", &[&1]).expect("the stock");
    }
    for (client, left) in [(one, 9), (other, 7)] {
        client.execute("UPDATE stock SET left_over = $1 WHERE id = 1", &[&left]).expect("a sale");
        client.batch_execute("COMMIT").expect("a commit");
    }
}

/// Behind a migration the recording begins anew: what is wrong there is found, and what is right
/// holds.
#[test]
fn behind_a_change_of_the_schema_anomalies_are_found() {
    for initial in ["full", "lazy"] {
        let Some(server) = server("") else { return };
        let proxy = Waiting::start(server.url(), &["--claim", "serializable", "--initial", initial]);
        let (mut one, mut other) = (proxy.client(), proxy.client());
        one.batch_execute(SHOP).expect("a schema");
        lost_update(&mut one, &mut other);
        drop((one, other));
        let (status, told) = proxy.end();
        assert_eq!((status, told["run"]["judged"].as_str()), (1, Some("application")), "{initial}: {told}");
        let proxy = Waiting::start(server.url(), &["--initial", initial]);
        let (mut one, mut other) = (proxy.client(), proxy.client());
        one.query("SELECT left_over FROM stock WHERE id = 2", &[]).expect("the stock");
        one.batch_execute("ALTER TABLE stock ADD price int NOT NULL DEFAULT 7").expect("a column");
        lost_update(&mut one, &mut other);
        one.batch_execute("TRUNCATE stock").expect("it is emptied");
        assert!(other.query("SELECT price FROM stock WHERE id = 1", &[]).expect("nothing").is_empty());
        drop((one, other));
        let (status, told) = proxy.end();
        assert_eq!(status, 0, "{initial}: {told}");
        let covered = &told["run"]["coverage"];
        assert_eq!(covered["transactions"], covered["all_transactions"], "{initial}: {told}");
        assert_eq!(told["run"]["parts"].as_array().map(Vec::len), Some(3), "{initial}: {told}");
    }
}

/// Clients work while others migrate: whatever is open during a change, nobody is accused.
#[test]
fn nobody_is_accused_of_a_migration() {
    let Some(server) = server(SHOP) else { return };
    for round in 0..6 {
        let initial = ["full", "lazy", "unknown"][round % 3];
        let proxy = Waiting::start(server.url(), &["--initial", initial, "--timeout", "20s"]);
        thread::scope(|scope| {
            for number in 0..3 {
                let proxy = &proxy;
                scope.spawn(move || {
                    let mut client = proxy.client();
                    for n in 0..40 {
                        let (id, value) = ((n + number) % 3 + 1, n * 10 + number);
                        let _ = client.batch_execute("BEGIN");
                        // A query in the way of a change of the schema may be refused.
                        let read = client.query("SELECT left_over FROM stock WHERE id = $1", &[&id]);
                        let wrote = client.batch_execute(&format!(
                            "INSERT INTO stock (id, left_over) VALUES ({id}, {value})
                             ON CONFLICT (id) DO UPDATE SET left_over = excluded.left_over"
                        ));
                        let fine = read.is_ok() && wrote.is_ok();
                        let _ = client.batch_execute(if fine { "COMMIT" } else { "ROLLBACK" });
                    }
                });
            }
            let proxy = &proxy;
            scope.spawn(move || {
                let mut client = proxy.client();
                for n in 0..4 {
                    let texts = [
                        format!("ALTER TABLE stock ADD c{n} int DEFAULT 5"),
                        "TRUNCATE stock".to_owned(),
                        format!(
                            "BEGIN; ALTER TABLE stock DROP c{n}; INSERT INTO stock VALUES (9, {n}); COMMIT"
                        ),
                        "DELETE FROM stock WHERE id = 9".to_owned(),
                        "ALTER TABLE stock ALTER left_over TYPE bigint USING left_over".to_owned(),
                        "ALTER TABLE stock ALTER left_over TYPE int USING left_over".to_owned(),
                    ];
                    for text in texts {
                        let _ = client.batch_execute(&text);
                        let _ = client.batch_execute("ROLLBACK");
                    }
                }
            });
        });
        let (status, told) = proxy.end();
        assert!(status == 0 || status == 3, "{initial}: {told}");
        assert_eq!(told["run"]["live"]["violations"], 0, "{initial}: {told}");
    }
}

/// A temporary table that hides another stays when the schema is read anew.
#[test]
fn a_hidden_table_stays_hidden() {
    let Some(server) = server(SHOP) else { return };
    let proxy = Waiting::start(server.url(), &[]);
    let (mut one, mut other) = (proxy.client(), proxy.client());
    one.batch_execute("CREATE TEMP TABLE stock AS SELECT * FROM public.stock WHERE id < 0").expect("a table");
    other.batch_execute("CREATE TABLE more (id int PRIMARY KEY)").expect("a table");
    other.batch_execute("UPDATE stock SET left_over = 1 WHERE id = 1").expect("an update");
    assert!(one.query("SELECT left_over FROM stock WHERE id = 1", &[]).expect("nothing").is_empty());
    drop((one, other));
    let (status, told) = proxy.end();
    assert_eq!(status, 3, "{told}");
}

/// Margay is in nobody's way: a database can be copied and dropped, and made again with other
/// contents.
#[test]
fn databases_come_and_go() {
    let Some(server) = server(SHOP) else { return };
    let proxy = Waiting::start(server.url(), &[]);
    let mut admin = proxy.client();
    for pieces in [5, 6] {
        admin.batch_execute("CREATE DATABASE other").expect("a database");
        let mut client = direct(&in_database(&proxy.url, "other"));
        client.batch_execute(SHOP).expect("a schema");
        client.execute("UPDATE stock SET left_over = $1 WHERE id = 1", &[&pieces]).expect("an update");
        let found = client.query_one("SELECT left_over FROM stock WHERE id = 1", &[]).expect("a row");
        assert_eq!(found.get::<_, i32>(0), pieces);
        drop(client);
        admin.batch_execute("CREATE DATABASE copy TEMPLATE other").expect("a copy");
        admin.batch_execute("DROP DATABASE copy").expect("it is dropped");
        admin.batch_execute("DROP DATABASE other").expect("it is dropped");
    }
    drop(admin);
    let (status, told) = proxy.end();
    assert_eq!((status, &told["run"]["concerns"]), (0, &serde_json::json!([])), "{told}");
    let parts = told["run"]["parts"].as_array().expect("parts");
    assert_eq!(parts.iter().filter(|part| part["database"] == "other").count(), 2, "{told}");
}
