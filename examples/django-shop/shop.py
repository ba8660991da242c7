"""A shop that sells from one stock, with Django.

    shop.py create      makes the table, with ten pieces
    shop.py sell        two customers buy at the same time: both read the stock, both write what is left
    shop.py repaired    the same with select_for_update

The database is the one of DATABASE_URL, which `margay proxy … -- python3 shop.py sell` sets.
"""

import os
import sys
import threading
from urllib.parse import unquote, urlsplit

import django
from django.conf import settings

url = urlsplit(os.environ["DATABASE_URL"])
settings.configure(
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": unquote(url.path[1:]),
            "USER": unquote(url.username or ""),
            "PASSWORD": unquote(url.password or ""),
            "HOST": url.hostname,
            "PORT": url.port,
        }
    }
)
django.setup()

from django.db import connection, models, transaction  # noqa: E402  Django wants its settings first


class Stock(models.Model):
    pieces = models.IntegerField()

    class Meta:
        app_label = "shop"


both_have_looked = threading.Barrier(2)


def sell(pieces, repaired):
    with transaction.atomic():
        if repaired:
            item = Stock.objects.select_for_update().get(id=1)
        else:
            item = Stock.objects.get(id=1)
            both_have_looked.wait()
        item.pieces -= pieces
        item.save()
    connection.close()


def main(command):
    if command == "create":
        with connection.schema_editor() as editor:
            editor.create_model(Stock)
        Stock.objects.create(id=1, pieces=10)
        return
    customers = [threading.Thread(target=sell, args=(pieces, command == "repaired")) for pieces in (1, 3)]
    for customer in customers:
        customer.start()
    for customer in customers:
        customer.join()


main(sys.argv[1])
