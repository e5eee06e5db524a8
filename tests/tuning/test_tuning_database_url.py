"""Addresses of studies, and what is shown of them."""

import pytest

from propml.tuning.database_url import masked, without_secrets

SHOWN = {
    "postgresql://me:pw@h/db": "postgresql://me:***@h/db",
    "postgresql://:pw@h/db": "postgresql://:***@h/db",
    "postgresql://me%3Apw@h/db": "postgresql://me%3A***@h/db",
    "postgresql+psycopg2://me%3apw@h:5432/db": "postgresql+psycopg2://me%3a***@h:5432/db",
    "mysql://me:p@pw@h/db": "mysql://me:***@h/db",
    "mysql://me:p:pw@h/db": "mysql://me:***@h/db",
    "mysql://me:p/pw@h/db": "mysql://me:***@h/db",
    "mysql://me:p?pw@h/db": "mysql://me:***@h/db",
    "mysql://me:p?a=pw@h/db": "mysql://me:***@h/db",
    "mysql://me:p#pw@h/db": "mysql://me:***@h/db",
    "postgresql://h/db?user=me&password=pw": "postgresql://h/db?user=me&password=***",
    "postgresql://h/db?user=me&%70assword=pw&x=1": "postgresql://h/db?user=me&%70assword=***&x=1",
    "postgresql://h:5432/db?user=me@there&PASSWORD=pw": "postgresql://h:5432/db?user=me@there&PASSWORD=***",
    "postgresql://me@h/db?sslpassword=pw&sslkey=pw": "postgresql://me@h/db?sslpassword=***&sslkey=***",
    "mysql://a:pw@h/d?ssl_key=pw&charset=utf8": "mysql://a:***@h/d?ssl_key=***&charset=utf8",
    "mysql://h/d?passwd=p;pw": "mysql://h/d?passwd=***",
    "mysql://h/d?password=p#pw": "mysql://h/d?password=***",
    "mssql:///?odbc_connect=SERVER%3Dh%3BPWD%3Dpw": "mssql:///?odbc_connect=***",
    "sqlite+pysqlcipher://:pw@/study.db": "sqlite+pysqlcipher://:***@/study.db",
    "postgresql://[::1]:5432/db?password=pw": "postgresql://[::1]:5432/db?password=***",
}


@pytest.mark.parametrize("url", SHOWN)
def test_no_secret_of_a_url_is_shown_and_everything_else_is(url):
    assert masked(url) == SHOWN[url]
    assert "pw" not in without_secrets(f"the server says: cannot connect to {url!r}", url)


@pytest.mark.parametrize(
    "url", ["sqlite:///a.db", "sqlite:////home/a:b@c/study.db", "postgresql://me@h:5432/db?sslmode=require", "a:b@c"]
)
def test_a_url_without_a_secret_is_shown_as_it_is(url):
    assert masked(url) == url
    assert without_secrets(f"no {url}", url) == f"no {url}"


def test_a_password_is_hidden_in_what_others_say_also_as_they_read_it():
    url = "postgresql://me:s%40cret%2Fx@h/db"
    assert without_secrets('no password "s@cret/x", s%40cret%2Fx', url) == 'no password "***", ***'
    assert without_secrets("invalid port: 'ab'", "postgresql://me:ab/cd@h/db") == "invalid port: '***'"
    assert without_secrets('no host "cd@h"', "postgresql://me:ab@cd@h/db") == 'no host "***@h"'
    assert without_secrets("--storage=postgresql://me:ab@h/db", "postgresql://me:ab@h/db").endswith("://me:***@h/db")
