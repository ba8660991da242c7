//! Procedures in both syntaxes, with what their calls give. The tests of the fragment evaluate them
//! here, those against the databases there too.

/// One construct.
pub struct Case {
    pub name: &'static str,
    pub mysql: &'static [&'static str],
    pub postgres: &'static [&'static str],
    /// Arguments, with `!` for each OUT parameter, and the OUT values; or `error`.
    pub calls: &'static [(&'static str, &'static str)],
}

pub const TABLES: &[&str] = &[
    "CREATE TABLE account (id INT PRIMARY KEY, owner VARCHAR(20), balance DECIMAL(12,2))",
    "CREATE TABLE log (n INT PRIMARY KEY, amount DECIMAL(12,2))",
    "INSERT INTO account VALUES (1, 'ann', 100.00), (2, 'bob', 50.50), (3, 'cyd', 70.25)",
];

pub const CASES: &[Case] = &[
    Case {
        name: "parameters",
        mysql: &[
            "CREATE PROCEDURE p(IN a INT, OUT b INT, c DECIMAL(6,2), OUT d DECIMAL(6,2), OUT e VARCHAR(9)) \
                  DETERMINISTIC BEGIN SET b = a + 1, d = c * a; END",
        ],
        postgres: &[
            "CREATE PROCEDURE p(IN a INT, OUT b INT, c DECIMAL(6,2), OUT d DECIMAL(6,2), e OUT VARCHAR(9)) \
                     LANGUAGE plpgsql AS $$ BEGIN b := a + 1; d = c * a; END $$",
        ],
        calls: &[
            ("5, !, 1.25, !, !", "6,6.25,NULL"),
            ("NULL, !, 2.00, !, !", "NULL,NULL,NULL"),
            ("1, !", "error"),
        ],
    },
    Case {
        name: "nested",
        mysql: &[
            "CREATE PROCEDURE twice(INOUT x INT, OUT old INT) BEGIN SET old = x; SET x = x * 2; END",
            "CREATE PROCEDURE p(IN a INT, OUT b INT, OUT c INT) BEGIN DECLARE v INT DEFAULT 1; SET v = v + a; \
             CALL twice(v, c); CALL twice(v, c); SET b = v; END",
        ],
        postgres: &[
            "CREATE PROCEDURE twice(INOUT x INT, OUT old INT) AS $$ BEGIN old := x; x := x * 2; END; $$ LANGUAGE plpgsql",
            "CREATE PROCEDURE p(IN a INT, OUT b INT, OUT c INT) LANGUAGE plpgsql AS $$ DECLARE v INT DEFAULT 1; \
             BEGIN v := v + a; CALL twice(v, c); CALL twice(v, c); b := v; END $$",
        ],
        calls: &[("4, !, !", "20,10")],
    },
    Case {
        name: "variables",
        mysql: &[
            "CREATE PROCEDURE p(OUT r VARCHAR(40), OUT s DECIMAL(8,2), OUT t INT) BEGIN DECLARE a, b INT DEFAULT 7; \
                  DECLARE c DECIMAL(5,1) DEFAULT 2.25; DECLARE d VARCHAR(10); \
                  BEGIN DECLARE a INT DEFAULT 100; SET b = a + b; END; \
                  SET d = 'x'; SET r = CONCAT(d, '-', a, '-', b); SET s = c + 1.05, t = 2.5; END",
        ],
        postgres: &[
            "CREATE PROCEDURE p(OUT r VARCHAR(40), OUT s DECIMAL(8,2), OUT t INT) LANGUAGE plpgsql AS $$ \
                     DECLARE a INT := 7; b INT DEFAULT 7; c DECIMAL(5,1) = 2.25; d VARCHAR(10); \
                     BEGIN DECLARE a INT := 100; BEGIN b := a + b; END; \
                     d := 'x'; r := CONCAT(d, '-', a, '-', b); s := c + 1.05; t := 2.5; END $$",
        ],
        calls: &[("!, !, !", "'x-7-107',3.35,3")],
    },
    Case {
        name: "into",
        mysql: &["CREATE PROCEDURE p(k INT, OUT o VARCHAR(20), OUT b DECIMAL(12,2), OUT n INT) BEGIN \
                  SELECT owner, balance INTO o, b FROM account WHERE id = k; \
                  SELECT COUNT(*) FROM account WHERE balance < b INTO n; END"],
        postgres: &[
            "CREATE PROCEDURE p(k INT, OUT o VARCHAR(20), OUT b DECIMAL(12,2), OUT n INT) LANGUAGE plpgsql AS $$ \
                     DECLARE floor_of account.balance%TYPE; row account%ROWTYPE; BEGIN \
                     SELECT * INTO row FROM account WHERE id = k; o := row.owner; b := row.balance; \
                     SELECT INTO floor_of balance FROM account ORDER BY balance DESC; \
                     SELECT COUNT(*) FROM account a WHERE a.balance < b AND a.balance <= floor_of INTO n; END $$",
        ],
        calls: &[("1, !, !, !", "'ann',100.00,2"), ("9, !, !, !", "NULL,NULL,0")],
    },
    Case {
        name: "writes",
        mysql: &["CREATE PROCEDURE p(source INT, target INT, amount DECIMAL(12,2)) BEGIN \
                  UPDATE account SET balance = balance - amount WHERE id = source; \
                  UPDATE account SET balance = balance + amount WHERE id = target; \
                  INSERT INTO log (n, amount) SELECT COUNT(*), amount FROM log; \
                  DELETE FROM account WHERE balance = 0; END"],
        postgres: &[
            "CREATE PROCEDURE p(source INT, target INT, total DECIMAL(12,2)) LANGUAGE plpgsql AS $$ BEGIN \
                     UPDATE account SET balance = balance - total WHERE id = source; \
                     UPDATE account SET balance = balance + total WHERE id = target; \
                     INSERT INTO log (n, amount) SELECT COUNT(*), total FROM log; \
                     DELETE FROM account WHERE balance = 0; END $$",
        ],
        calls: &[("1, 2, 25.50", ""), ("2, 3, 76.00", "")],
    },
    Case {
        name: "if",
        mysql: &[
            "CREATE PROCEDURE p(a INT, OUT r VARCHAR(9)) IF a < 0 THEN SET r = 'minus'; ELSEIF a = 0 THEN SET r = 'zero'; \
                  ELSEIF CASE WHEN a > 9 THEN TRUE ELSE FALSE END THEN SET r = 'large'; ELSE SET r = 'other'; END IF",
        ],
        postgres: &["CREATE PROCEDURE p(a INT, OUT r VARCHAR(9)) LANGUAGE plpgsql AS $$ BEGIN \
                     IF a < 0 THEN r := 'minus'; ELSIF a = 0 THEN r := 'zero'; \
                     ELSEIF (CASE WHEN a > 9 THEN TRUE ELSE FALSE END) THEN r := 'large'; ELSE r := 'other'; END IF; END $$"],
        calls: &[
            ("-3, !", "'minus'"),
            ("0, !", "'zero'"),
            ("10, !", "'large'"),
            ("5, !", "'other'"),
            ("NULL, !", "'other'"),
        ],
    },
    Case {
        name: "while",
        mysql: &["CREATE PROCEDURE p(n INT, OUT s INT) BEGIN DECLARE i INT DEFAULT 0; SET s = 0; \
                  WHILE i < n DO SET i = i + 1; SET s = s + i; END WHILE; \
                  REPEAT SET s = s * 2; UNTIL s > 50 END REPEAT; END"],
        postgres: &[
            "CREATE PROCEDURE p(n INT, OUT s INT) LANGUAGE plpgsql AS $$ DECLARE i INT := 0; BEGIN s := 0; \
                     WHILE i < n LOOP i := i + 1; s := s + i; END LOOP; \
                     LOOP s := s * 2; EXIT WHEN s > 50; END LOOP; END $$",
        ],
        calls: &[("4, !", "80"), ("10, !", "110")],
    },
    Case {
        name: "loop",
        mysql: &["CREATE PROCEDURE p(n INT, OUT s INT) whole: BEGIN DECLARE i INT DEFAULT 0; SET s = 0; \
                  outside: LOOP SET i = i + 1; IF i > n THEN LEAVE outside; END IF; \
                  IF i % 2 = 0 THEN ITERATE outside; END IF; \
                  inmost: LOOP SET s = s + i; IF s > 30 THEN LEAVE whole; END IF; LEAVE inmost; END LOOP inmost; \
                  END LOOP outside; SET s = s + 1000; END whole"],
        postgres: &[
            "CREATE PROCEDURE p(n INT, OUT s INT) LANGUAGE plpgsql AS $$ DECLARE i INT := 0; BEGIN s := 0; \
                     <<outside>> LOOP i := i + 1; IF i > n THEN EXIT outside; END IF; CONTINUE outside WHEN i % 2 = 0; \
                     LOOP s := s + i; IF s > 30 THEN RETURN; END IF; EXIT; END LOOP; \
                     END LOOP outside; s := s + 1000; END $$",
        ],
        calls: &[("6, !", "1009"), ("100, !", "36")],
    },
    Case {
        name: "cursor",
        mysql: &[
            "CREATE PROCEDURE p(floor_of DECIMAL(12,2), OUT n INT, OUT s VARCHAR(60)) BEGIN DECLARE done INT DEFAULT FALSE; \
                  DECLARE o VARCHAR(20); DECLARE b DECIMAL(12,2); \
                  DECLARE c CURSOR FOR SELECT owner, balance FROM account WHERE balance >= floor_of ORDER BY id DESC; \
                  DECLARE CONTINUE HANDLER FOR NOT FOUND SET done = TRUE; \
                  SET n = 0, s = ''; OPEN c; \
                  rows_of_c: LOOP FETCH c INTO o, b; IF done THEN LEAVE rows_of_c; END IF; \
                  SET n = n + 1; SET s = CONCAT(s, o, '=', b, ';'); \
                  UPDATE account SET balance = 0 WHERE owner = 'ann'; END LOOP; CLOSE c; END",
        ],
        postgres: &[
            "CREATE PROCEDURE p(floor_of DECIMAL(12,2), OUT n INT, OUT s VARCHAR(60)) LANGUAGE plpgsql AS $$ \
                     DECLARE o VARCHAR(20); b DECIMAL(12,2); \
                     c CURSOR FOR SELECT owner, balance FROM account WHERE balance >= floor_of ORDER BY id DESC; \
                     BEGIN n := 0; s := ''; OPEN c; \
                     LOOP FETCH c INTO o, b; EXIT WHEN NOT FOUND; \
                     n := n + 1; s := s || o || '=' || b || ';'; \
                     UPDATE account SET balance = 0 WHERE owner = 'ann'; END LOOP; CLOSE c; END $$",
        ],
        calls: &[
            ("60.00, !, !", "2,'cyd=70.25;ann=100.00;'"),
            ("60.00, !, !", "1,'cyd=70.25;'"),
            ("999.00, !, !", "0,''"),
        ],
    },
    Case {
        name: "handler",
        mysql: &[
            "CREATE PROCEDURE p(k INT, OUT r VARCHAR(20)) BEGIN DECLARE o VARCHAR(20) DEFAULT 'nobody'; \
                  BEGIN DECLARE EXIT HANDLER FOR SQLSTATE '02000' BEGIN SET r = 'no row'; END; \
                  SELECT owner INTO o FROM account WHERE id = k; SET r = o; END; \
                  SELECT owner INTO o FROM account WHERE id = -1; SET r = CONCAT(r, ' ', o); END",
        ],
        postgres: &[
            "CREATE PROCEDURE p(k INT, OUT r VARCHAR(20)) LANGUAGE plpgsql AS $$ DECLARE o VARCHAR(20); BEGIN \
                     SELECT owner INTO o FROM account WHERE id = k; \
                     IF FOUND THEN r := o || ' ' || o; ELSE r := 'no row nobody'; END IF; END $$",
        ],
        calls: &[("9, !", "'no row nobody'")],
    },
    Case {
        name: "refcursor",
        mysql: &[
            "CREATE PROCEDURE p(k INT, OUT r VARCHAR(20)) BEGIN DECLARE c CURSOR FOR SELECT owner FROM account WHERE id = k; \
                  OPEN c; FETCH NEXT FROM c INTO r; CLOSE c; OPEN c; FETCH c INTO r; CLOSE c; END",
        ],
        postgres: &[
            "CREATE PROCEDURE p(k INT, OUT r VARCHAR(20)) LANGUAGE plpgsql AS $$ DECLARE c REFCURSOR; BEGIN \
                     OPEN c FOR SELECT owner FROM account WHERE id = k; FETCH NEXT FROM c INTO r; CLOSE c; \
                     IF r IS NULL THEN FETCH c INTO r; END IF; END $$",
        ],
        calls: &[("2, !", "'bob'"), ("9, !", "error")],
    },
    Case {
        name: "raise",
        mysql: &["CREATE PROCEDURE p(k INT, OUT r INT) BEGIN INSERT INTO log VALUES (k, 1.00); \
                  IF k > 5 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'too large'; END IF; SET r = k; END"],
        postgres: &[
            "CREATE PROCEDURE p(k INT, OUT r INT) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO log VALUES (k, 1.00); \
                     RAISE NOTICE 'here %', k; \
                     IF k > 5 THEN RAISE EXCEPTION 'too large'; END IF; r := k; END $$",
        ],
        calls: &[("3, !", "3"), ("3, !", "error"), ("7, !", "error"), ("4, !", "4")],
    },
];

/// Constructs of PL/pgSQL alone.
pub const POSTGRES: &[Case] = &[
    Case {
        name: "for",
        mysql: &[],
        postgres: &[
            "CREATE PROCEDURE p(n INT, OUT s TEXT, OUT f BOOLEAN) LANGUAGE plpgsql AS $$ BEGIN s := ''; \
                     FOR i IN 1..n LOOP s := s || i; END LOOP; FOR i IN REVERSE n..1 BY 2 LOOP s := s || i; END LOOP; \
                     FOR i IN n+1..n + 2 LOOP s := s || i; END LOOP; FOR i IN 3..2 LOOP s := 'never'; END LOOP; \
                     f := FOUND; END $$",
        ],
        calls: &[("3, !, !", "'1233145',FALSE"), ("0, !, !", "'12',FALSE")],
    },
    Case {
        name: "for row",
        mysql: &[],
        postgres: &[
            "CREATE PROCEDURE p(floor_of DECIMAL, OUT s TEXT, OUT t DECIMAL) LANGUAGE plpgsql AS $$ \
                     DECLARE r RECORD; o VARCHAR(20); b DECIMAL(12,2); BEGIN s := ''; t := 0; \
                     FOR r IN SELECT id, owner, balance * 2 AS twice FROM account WHERE balance >= floor_of ORDER BY id LOOP \
                     CONTINUE WHEN r.id = 3; s := s || r.owner || r.id; t := t + r.twice; \
                     UPDATE account SET balance = r.twice WHERE id = r.id; END LOOP; \
                     FOR o, b IN SELECT owner, balance FROM account ORDER BY balance DESC LOOP s := s || o || b; END LOOP; \
                     IF NOT FOUND THEN s := 'none'; END IF; END $$",
        ],
        calls: &[("60, !, !", "'ann1ann200.00cyd70.25bob50.50',200.00")],
    },
    Case {
        name: "returning",
        mysql: &[],
        postgres: &["CREATE PROCEDURE p(k INT, OUT b DECIMAL, OUT f BOOLEAN) LANGUAGE plpgsql AS $$ BEGIN \
                     UPDATE account SET balance = balance + 1 WHERE id = k RETURNING balance INTO b; f := FOUND; \
                     PERFORM 1 FROM account WHERE id = k; IF f <> FOUND THEN b := -1; END IF; \
                     DELETE FROM account WHERE id = -1; IF FOUND THEN b := -2; END IF; END $$"],
        calls: &[("1, !, !", "101.00,TRUE"), ("9, !, !", "NULL,FALSE")],
    },
    Case {
        name: "strict",
        mysql: &[],
        postgres: &["CREATE PROCEDURE p(k INT, OUT r TEXT) LANGUAGE plpgsql AS $$ BEGIN \
                     SELECT owner INTO STRICT r FROM account WHERE id >= k; END $$"],
        calls: &[("3, !", "'cyd'"), ("2, !", "error"), ("4, !", "error")],
    },
    Case {
        name: "variable and column",
        mysql: &[],
        postgres: &["CREATE PROCEDURE p(id INT, OUT r TEXT) LANGUAGE plpgsql AS $$ BEGIN \
                     SELECT owner INTO r FROM account WHERE account.id = id; END $$"],
        calls: &[("1, !", "error")],
    },
    Case {
        name: "text variable",
        mysql: &[],
        postgres: &["CREATE PROCEDURE p(k TEXT, OUT r TEXT) LANGUAGE plpgsql AS $$ BEGIN \
                     SELECT owner INTO r FROM account WHERE id = k; END $$"],
        calls: &[("'1', !", "error")],
    },
];

/// Constructs of MySQL alone.
pub const MYSQL: &[Case] = &[
    Case {
        name: "variable and column",
        mysql: &["CREATE PROCEDURE p(balance INT, OUT n INT) BEGIN \
                  UPDATE account SET balance = balance + 1 WHERE id = 1; \
                  SELECT COUNT(*) INTO n FROM account a WHERE a.balance > balance; END"],
        postgres: &[],
        calls: &[("60, !", "2"), ("1, !", "3")],
    },
    Case {
        name: "rows of INTO",
        mysql: &[
            "CREATE PROCEDURE p(k INT, OUT r VARCHAR(20)) BEGIN SELECT owner INTO r FROM account WHERE id >= k; END",
        ],
        postgres: &[],
        calls: &[("3, !", "'cyd'"), ("2, !", "error"), ("4, !", "NULL")],
    },
    Case {
        name: "types",
        mysql: &[
            "CREATE PROCEDURE p(a DECIMAL(10,2), OUT r INT, OUT t VARCHAR(3)) BEGIN SET r = a; SET t = a; END",
        ],
        postgres: &[],
        calls: &[("2.50, !, !", "error"), ("3, !, !", "error")],
    },
    Case {
        name: "division by zero",
        mysql: &[
            "CREATE PROCEDURE p(a INT, OUT r DECIMAL(8,4), OUT s INT) BEGIN IF 1 / a IS NULL THEN SET s = 1; ELSE SET s = 2; \
             END IF; IF a > -1 THEN SET r = 10 / a; END IF; END",
        ],
        postgres: &[],
        calls: &[("4, !, !", "2.5000,2"), ("-1, !, !", "NULL,2"), ("0, !, !", "error")],
    },
    Case {
        name: "overflow",
        mysql: &[
            "CREATE PROCEDURE p(a BIGINT, OUT r INT) BEGIN WHILE NULL DO SET r = 1; END WHILE; SET r = a; END",
        ],
        postgres: &[],
        calls: &[("3000000000, !", "error"), ("-5, !", "-5")],
    },
];

/// TPC-C's New-Order and Payment, in both syntaxes.
pub const TPCC: &[(&str, &str)] = &[
    (include_str!("new_order.mysql.sql"), include_str!("new_order.plpgsql.sql")),
    (include_str!("payment.mysql.sql"), include_str!("payment.plpgsql.sql")),
];

/// Calls of them, with `!` for each OUT parameter.
pub const TPCC_CALLS: &[&str] = &[
    "new_order(1, 1, 2, 6, 3, '2024-01-01', !, !)",
    "new_order(1, 2, 5, 14, 8, '2024-01-01', !, !)",
    "payment(1, 1, 'BARBAR', 12.50, '2024-01-02', !)",
    "payment(1, 2, 'OUGHT', 7.00, '2024-01-02', !)",
    "payment(1, 2, 'NOBODY', 7.00, '2024-01-02', !)",
    "new_order(1, 1, 6, 9, 77, '2024-01-03', !, !)",
];

/// The call of a case's procedure.
pub fn call(args: &str, mysql: bool) -> String {
    let mut text = String::new();
    let mut outs = 0;
    for c in args.chars() {
        if c != '!' {
            text.push(c);
            continue;
        }
        outs += 1;
        text += &if mysql { format!("@o{outs}") } else { "NULL".to_string() };
    }
    if text.ends_with(')') { format!("CALL {text}") } else { format!("CALL p({text})") }
}

/// MariaDB's text that shows the OUT values of a call.
pub fn outs(args: &str) -> Option<String> {
    let count = args.matches('!').count();
    let names: Vec<String> = (1..=count).map(|at| format!("@o{at}")).collect();
    (count > 0).then(|| format!("SELECT {}", names.join(", ")))
}
