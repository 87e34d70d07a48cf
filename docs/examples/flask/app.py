"""A flask application; gunicorn serves it on $PORT and handles SIGTERM."""

import os

from flask import Flask

app = Flask(__name__)


@app.get("/")
def hello() -> tuple[str, dict[str, str]]:
    text = f"Hello {os.environ.get('TARGET', 'World')}, from flask, {os.environ.get('K_REVISION', '-')}\n"
    return text, {"Content-Type": "text/plain; charset=utf-8"}
