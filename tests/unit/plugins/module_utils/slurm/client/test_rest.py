# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of slurmrestd as a transport, against a real HTTP server on a port and on a Unix socket."""

from __future__ import annotations

import base64
import http.server
import json
import socketserver
import threading
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import rest
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client.rest import Rest
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client.transport import (
    Operation,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.errors import SlurmError


def token(**claims: t.Any) -> str:
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()) for part in ({}, claims)]
    return b".".join([*parts, b"signature"]).decode().replace("=", "")


TOKEN = token(sun="alice", exp=1795190400)
# What meta says of Slurm, by API version.
META = {
    "v0.0.38": {"Slurm": {"version": {"major": 22, "micro": 8, "minor": 5}, "release": "22.05.8"}},
    "v0.0.40": {"Slurm": {"version": {"major": 23, "micro": 4, "minor": 11}}},
    "v0.0.42": {"slurm": {"version": {"major": "24", "micro": "5", "minor": "11"}}},
    "v0.0.45": {"slurm": {"release": "26.05.5", "version": {"major": "26"}}},
}
NO_PATH = "Unable find requested URL. Please view /openapi/v3 for API reference."
Answer = tuple[int, t.Any]


class Server:
    """Answers by method and path; remembers the requests."""

    def __init__(self, *apis: str) -> None:
        self.answers: dict[str, Answer] = {}
        self.requests: list[tuple[str, str, dict[str, str], t.Any]] = []
        for api in apis:
            self.answers[f"GET /slurm/{api}/ping/"] = (200, {"meta": META[api], "errors": []})

    def handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                headers = {key.lower(): value for key, value in self.headers.items()}
                server.requests.append((self.command, self.path, headers, body))
                key = f"{self.command} {self.path}"
                status, given = server.answers.get(key, (404, NO_PATH))
                raw = given if isinstance(given, str) else json.dumps(given)
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", f"/elsewhere{self.path}")
                self.send_header("Content-Length", str(len(raw.encode())))
                self.end_headers()
                self.wfile.write(raw.encode())

            do_GET = do_POST = do_DELETE = answer

            def log_message(self, *_given: t.Any) -> None:
                pass

            def address_string(self) -> str:
                return "test"

        return Handler

    def paths(self) -> list[str]:
        """Requests after those that look for the version."""
        return [f"{m} {p}" for m, p, _h, _b in self.requests if not p.endswith("/ping/")]


class _Unix(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True


@pytest.fixture(params=["port", "socket"])
def serve(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[t.Callable[[Server], str]]:
    running: list[socketserver.BaseServer] = []

    def start(server: Server) -> str:
        made: socketserver.BaseServer
        if request.param == "port":
            made = http.server.ThreadingHTTPServer(("127.0.0.1", 0), server.handler())
            url = f"http://127.0.0.1:{made.server_address[1]}"
        else:
            path = tmp_path / f"rest{len(running)}.socket"
            made = _Unix(str(path), server.handler())
            url = f"unix://{path}"
        running.append(made)
        threading.Thread(target=made.serve_forever, args=(0.01,), daemon=True).start()
        return url

    yield start
    for one in running:
        one.shutdown()
        one.server_close()


Serve = t.Callable[[Server], str]


def connect(url: str, **params: t.Any) -> Rest:
    return Rest.from_params({"rest_url": url, "rest_token": TOKEN, **params})


# --- finding it -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("offered", "api", "version"),
    [
        (["v0.0.38"], "v0.0.38", "22.05.8"),
        (["v0.0.38", "v0.0.40"], "v0.0.40", "23.11.4"),
        (["v0.0.40", "v0.0.42"], "v0.0.42", "24.11.5"),
        (["v0.0.42", "v0.0.45"], "v0.0.45", "26.05.5"),
    ],
)
def test_the_newest_version_that_both_know_is_taken(
    serve: Serve, offered: list[str], api: str, version: str
) -> None:
    server = Server(*offered)
    one = connect(serve(server))
    assert (one.api, one.version) == (api, version)
    asked = len(server.requests)
    assert one.version == version and len(server.requests) == asked


def test_a_version_that_is_asked_for_is_taken(serve: Serve) -> None:
    server = Server("v0.0.40", "v0.0.42")
    assert connect(serve(server), rest_api_version="v0.0.40").api == "v0.0.40"
    assert len(server.requests) == 1


def test_a_version_that_is_not_offered_comes_with_those_that_are(serve: Serve) -> None:
    server = Server("v0.0.42")
    paths = {"/slurm/v0.0.42/ping/": {}, "/slurmdb/v0.0.41/users/": {}}
    server.answers["GET /openapi/v3"] = (200, {"paths": paths})
    with pytest.raises(SlurmError, match="version v0.0.40, but v0.0.41, v0.0.42 -> use") as caught:
        connect(serve(server), rest_api_version="v0.0.40")
    assert caught.value.kind == "impossible"


def test_slurm_of_26_05_says_in_json_that_a_path_is_not_there(serve: Serve) -> None:
    server = Server("v0.0.42")
    error = "Unable to find requested URL endpoint. Please query the '/openapi/v3' endpoint"
    server.answers["GET /slurm/v0.0.45/ping/"] = (404, {"errors": [{"error": error}]})
    assert connect(serve(server)).api == "v0.0.42"


@pytest.mark.parametrize("url", ["ctl1:6820", "ftp://ctl1", "http://", "/run/x.socket"])
def test_what_is_no_url_is_said(url: str) -> None:
    with pytest.raises(SlurmError, match="rest_url: .* is not a URL of slurmrestd -> write http"):
        Rest(url)


def test_without_a_url_it_is_missing() -> None:
    with pytest.raises(SlurmError, match="rest_url is not set -> ") as caught:
        Rest.from_params({})
    assert caught.value.kind == "missing"


def test_an_api_version_in_another_form_is_refused() -> None:
    with pytest.raises(SlurmError, match="rest_api_version: 42 is not a version -> write one such"):
        Rest("http://x", api="42")


# --- who asks -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("given", "user", "seen"),
    [
        (TOKEN, "", "alice"),
        (TOKEN, "bob", "bob"),
        (token(username="carol"), "", "carol"),
        ("a.%%%.c", "dave", "dave"),
        (token(exp=1), "eve", "eve"),
    ],
)
def test_the_user_is_that_of_the_token_or_that_of_the_task(
    serve: Serve, given: str, user: str, seen: str
) -> None:
    server = Server("v0.0.42")
    one = connect(serve(server), rest_token=given, rest_user=user)
    headers = server.requests[-1][2]
    assert (headers["x-slurm-user-name"], headers["x-slurm-user-token"]) == (seen, given)
    assert one.user == seen


def test_without_a_token_no_user_is_sent(serve: Serve) -> None:
    """slurmrestd refuses a user name without a token; a socket may know who asks."""
    server = Server("v0.0.42")
    connect(serve(server), rest_token="")
    assert not [key for key in server.requests[-1][2] if key.startswith("x-slurm")]


@pytest.mark.parametrize("status", [401, 403, 511])
def test_a_bad_token_is_denied_and_never_shown(serve: Serve, status: int) -> None:
    server = Server()
    for api in rest.API_VERSIONS:
        server.answers[f"GET /slurm/{api}/ping/"] = (status, "Authentication failure")
    with pytest.raises(SlurmError, match=rf"\(as alice\): HTTP {status}, the token") as caught:
        connect(serve(server))
    assert caught.value.kind == "denied" and TOKEN not in str(caught.value)
    assert "signature" not in repr(caught.value.__cause__)


def test_a_redirect_is_not_followed_with_the_token(serve: Serve) -> None:
    server = Server("v0.0.42")
    server.answers["GET /slurm/v0.0.42/nodes/"] = (302, "")
    with pytest.raises(SlurmError):
        connect(serve(server)).nodes()
    assert not [path for path in server.paths() if "elsewhere" in path]


# --- what goes wrong ------------------------------------------------------------------------------
def failing(serve: Serve, status: int, document: t.Any) -> SlurmError:
    server = Server("v0.0.42")
    server.answers["GET /slurm/v0.0.42/nodes/"] = (status, document)
    with pytest.raises(SlurmError) as caught:
        connect(serve(server)).nodes()
    assert TOKEN not in str(caught.value) and " -> " in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("status", "fault", "kind"),
    [
        (
            500,
            {
                "description": "Failure to query nodes",
                "error": "Unable to contact slurm controller (connect failure)",
                "error_number": 1800,
            },
            "down",
        ),
        (
            500,
            {"error": "Unable to contact slurm controller (connect failure)", "errno": 1800},
            "down",
        ),
        (502, {"error": "Unable to connect to database", "error_number": 7000}, "database"),
        (
            502,
            {
                "description": "Failed to open slurmdbd connection, authentication error",
                "error": "Unable to connect to database",
                "error_number": 7000,
            },
            "denied",
        ),
        (200, {"error": "Access/permission denied", "error_number": 2002}, "denied"),
        (422, {"error": "Invalid node name specified", "error_number": 2018}, "unknown"),
    ],
)
def test_errors_in_a_document(
    serve: Serve, status: int, fault: dict[str, t.Any], kind: str
) -> None:
    error = failing(serve, status, {"errors": [fault], "nodes": []})
    assert error.kind == kind and fault["error"] in str(error)


@pytest.mark.parametrize(
    ("fault", "kind"), [("Protocol authentication error", "denied"), ("", "down")]
)
def test_what_22_05_does_not_say_is_asked_of_the_database(
    serve: Serve, fault: str, kind: str
) -> None:
    """With a bad token, as recorded; the same from slurmctld when it is down."""
    server = Server("v0.0.38")
    errors = [{"error": "Unspecified error", "errno": -1}]
    server.answers["GET /slurm/v0.0.38/nodes/"] = (500, {"errors": errors, "nodes": []})
    faults = [{"error": fault, "error_number": 1007}] if fault else []
    server.answers["GET /slurmdb/v0.0.38/clusters/"] = (500 if fault else 200, {"errors": faults})
    with pytest.raises(SlurmError, match="Unspecified error") as caught:
        connect(serve(server)).nodes()
    assert caught.value.kind == kind


def test_text_that_is_no_document_is_an_error(serve: Serve) -> None:
    assert "HTTP 500 Bad" in str(failing(serve, 500, "Bad"))
    error = failing(serve, 503, "<html>")
    assert error.kind == "down" and "HTTP 503, nothing answers behind the proxy" in str(error)
    assert failing(serve, 404, NO_PATH).kind == "impossible"


def test_a_status_without_words_is_an_error(serve: Serve) -> None:
    assert "HTTP 500 -> " in str(failing(serve, 500, {}))


def test_a_query_that_found_nothing_is_empty_and_no_error(serve: Serve) -> None:
    """22.05 answers 500 and ESLURM_REST_EMPTY_RESULT for it."""
    server = Server("v0.0.38")
    fault = {"error": "Nothing found with query", "error_number": 9003}
    server.answers["GET /slurmdb/v0.0.38/users/?with_assocs=1"] = (
        500,
        {"users": [], "errors": [fault]},
    )
    found = connect(serve(server))._get("/slurmdb/v0.0.38/users/", {"with_assocs": "1"})
    assert found == {"users": [], "errors": []}


def test_a_port_without_a_server_counts_as_down(tmp_path: Path) -> None:
    with pytest.raises(SlurmError, match="slurmrestd at 127.0.0.1: GET .*refused") as caught:
        connect("http://127.0.0.1:1")
    assert caught.value.kind == "down"


def test_a_socket_that_is_not_there_is_missing(tmp_path: Path) -> None:
    with pytest.raises(SlurmError, match="none.socket.* -> correct rest_url") as caught:
        connect(f"unix://{tmp_path}/none.socket")
    assert caught.value.kind == "missing"


def test_an_answer_that_does_not_come_is_no_second_try_where_it_may_have_been_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Late:
        def open(self, *_given: t.Any, **_more: t.Any) -> t.NoReturn:
            raise TimeoutError("timed out")

    monkeypatch.setattr(rest, "_opener", lambda *given: Late())
    one = Rest("http://ctl1:6820", TOKEN)
    with pytest.raises(SlurmError, match="it may have been done -> look") as caught:
        one.request("POST", "/slurm/v0.0.42/job/submit", body={})
    assert caught.value.kind == "timeout" and not caught.value.passing
    with pytest.raises(SlurmError) as caught:
        one.request("GET", "/slurm/v0.0.42/nodes/")
    assert caught.value.kind == "down"


# --- reading and changing -------------------------------------------------------------------------
def test_nodes_of_two_versions(serve: Serve) -> None:
    server = Server("v0.0.42")
    server.answers["GET /slurm/v0.0.42/nodes/"] = (
        200,
        {"nodes": [{"name": "c1", "state": ["IDLE", "DRAIN"], "reason": "x"}], "errors": []},
    )
    assert [node.shown for node in connect(serve(server)).nodes()] == ["IDLE+DRAIN"]


def test_a_job_that_slurmctld_does_not_know_is_no_job(serve: Serve) -> None:
    server = Server("v0.0.42")
    fault = {"error": "Invalid job id specified", "error_number": 2017}
    server.answers["GET /slurm/v0.0.42/job/7"] = (404, {"errors": [fault], "jobs": []})
    assert connect(serve(server)).jobs(7) == []


def test_nodes_are_changed_one_by_one_before_24_11_and_together_from_then_on(
    serve: Serve,
) -> None:
    old, done = Server("v0.0.40"), (200, {"errors": []})
    for name in ("c1", "c2"):
        old.answers[f"POST /slurm/v0.0.40/node/{name}"] = done
    connect(serve(old)).update_nodes(["c1", "c2"], {"State": "RESUME"})
    assert old.paths() == ["POST /slurm/v0.0.40/node/c1", "POST /slurm/v0.0.40/node/c2"]
    assert old.requests[-1][3] == {"state": ["RESUME"]}


def test_nodes_are_changed_together_from_24_11_on(serve: Serve) -> None:
    server = Server("v0.0.42")
    server.answers["POST /slurm/v0.0.42/nodes/"] = (200, {"errors": []})
    connect(serve(server)).update_nodes(["c1", "c2"], {"State": "DRAIN", "Reason": "x"})
    assert server.requests[-1][3] == {"name": ["c1", "c2"], "state": ["DRAIN"], "reason": "x"}
    assert server.requests[-1][2]["content-type"] == "application/json"


def test_partitions_and_reservations_of_26_05(serve: Serve) -> None:
    server, done = Server("v0.0.45"), (200, {"errors": []})
    for key in (
        "POST /slurm/v0.0.45/partitions/",
        "DELETE /slurm/v0.0.45/partition/a%2Fb",
        "POST /slurm/v0.0.45/reservation",
        "DELETE /slurm/v0.0.45/reservation/r",
    ):
        server.answers[key] = done
    one = connect(serve(server))
    one.create_partition("p", {"MaxTime": "60"})
    assert server.requests[-1][3] == {"partitions": [{"name": "p", "maximums": {"time": 60}}]}
    one.delete_partition("a/b")
    one.create_reservation("r", {"Duration": "5"})
    assert server.requests[-1][3] == {"name": "r", "duration": 5}
    one.delete_reservation("r")


def test_what_no_slurmrestd_can_says_what_can(serve: Serve) -> None:
    one = connect(serve(Server("v0.0.42")))
    for call in (
        lambda: one.reboot_nodes(["c1"], True, "", ""),
        one.events,
        lambda: one.submit_job("", {"test_only": True}),
    ):
        with pytest.raises(SlurmError, match="-> use transport: cli") as caught:
            call()
        assert caught.value.kind == "impossible"


@pytest.mark.parametrize("answer", [{"job_id": 42}, {"result": {"job_id": 42}}])
def test_a_job_is_submitted(serve: Serve, answer: dict[str, t.Any]) -> None:
    server = Server("v0.0.42")
    server.answers["POST /slurm/v0.0.42/job/submit"] = (200, answer)
    options = {"job_name": "x", "chdir": "/home/alice"}
    assert connect(serve(server)).submit_job("#!/bin/sh\ntrue\n", options) == 42
    assert "true" in json.dumps(server.requests[-1][3])


def test_a_job_is_cancelled_and_one_that_has_ended_is_no_error(serve: Serve) -> None:
    server = Server("v0.0.42")
    fault = {"error": "Job/step already completing or completed", "error_number": 2021}
    server.answers["DELETE /slurm/v0.0.42/job/7?signal=TERM"] = (200, {})
    server.answers["DELETE /slurm/v0.0.42/job/7"] = (500, {"errors": [fault]})
    one = connect(serve(server))
    one.cancel_job(7, "TERM")
    one.cancel_job(7)


def test_a_change_of_the_accounting_is_the_requests_that_it_needs(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server("v0.0.42")
    server.answers["DELETE /slurmdb/v0.0.42/user/x%20y"] = (200, {})
    monkeypatch.setattr(
        rest.rest_accounting,
        "requests",
        lambda operations, api, get: iter([("DELETE", f"/slurmdb/{api}/user/x%20y", {}, None)]),
    )
    connect(serve(server)).apply([Operation("remove", "user", ("x y",))])
    assert server.paths() == ["DELETE /slurmdb/v0.0.42/user/x%20y"]
