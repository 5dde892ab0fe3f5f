"""A private PostgreSQL server on loopback, with its data in a temporary folder.

The first who asks starts it; it runs as an unprivileged user when the tests run as root, because
PostgreSQL refuses to be root's.
"""

import os
import pwd
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

MISSING = "the ledger needs a PostgreSQL server: install one, e.g. apt-get install postgresql"
USER = "locuscore"
QUICK = ["fsync=off", "full_page_writes=off", "shared_buffers=32MB"]
START_SECONDS = 30


def binaries():
    """Folder of the newest server on this machine, or None."""
    found = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    if found:
        return max(found, key=lambda path: int(path.parent.name))
    known = shutil.which("initdb")
    return Path(known).parent if known else None


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A server that can be stopped, killed and started again."""

    def __init__(self, folder, options=QUICK):
        self.bin, self.folder, self.port = binaries(), folder, free_port()
        self.password = "p%" + secrets.token_hex(8)
        self.options, self.process = options, None
        secret = folder / "password"
        secret.write_text(self.password)
        self.as_user = {}
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            self.as_user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
            for path in (folder, secret):
                os.chown(path, nobody.pw_uid, nobody.pw_gid)
        made = [self.bin / "initdb", "-D", folder / "data", "-U", USER, f"--pwfile={secret}"]
        made += [
            "-A",
            "scram-sha-256",
            "--no-sync",
            "--no-instructions",
            "-E",
            "UTF8",
            "--locale=C",
        ]
        self._run(made)
        self.start()

    def _run(self, command):
        done = subprocess.run(
            command, cwd="/", capture_output=True, text=True, check=False, **self.as_user
        )
        assert done.returncode == 0, done.stderr

    def url(self, database="postgres", password=None):
        written = (password or self.password).replace("%", "%25")
        return f"postgresql://{USER}:{written}@127.0.0.1:{self.port}/{database}"

    def start(self):
        command = [self.bin / "postgres", "-D", self.folder / "data", "-p", str(self.port)]
        options = ["listen_addresses=127.0.0.1", "unix_socket_directories=", *self.options]
        for option in options:
            command += ["-c", option]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                command, cwd="/", stdout=log, stderr=log, **self.as_user
            )
        self._wait()

    def _wait(self):
        import psycopg

        until = time.monotonic() + START_SECONDS
        while True:
            try:
                with self.connect():
                    return
            except psycopg.OperationalError:
                assert self.process.poll() is None, (self.folder / "log").read_text()
                assert time.monotonic() < until, "the server did not start"
                time.sleep(0.02)

    def connect(self, database="postgres"):
        import psycopg

        return psycopg.connect(
            host="127.0.0.1", port=self.port, user=USER, password=self.password, dbname=database,
            autocommit=True,
        )  # fmt: skip

    def new_database(self):
        """URL of an empty database."""
        name = f"d{secrets.token_hex(6)}"
        with self.connect() as connection:
            connection.execute(f"CREATE DATABASE {name} STRATEGY file_copy")
        return self.url(name)

    def stop(self, kill=False):
        if kill:
            self.process.kill()
        else:
            self.process.send_signal(2)  # SIGINT: at once, but in order
        self.process.wait()


@contextmanager
def server(options=QUICK):
    with tempfile.TemporaryDirectory(prefix="locuscore-postgres-") as folder:
        started = Server(Path(folder), options)
        try:
            yield started
        finally:
            if started.process.poll() is None:
                started.stop()
