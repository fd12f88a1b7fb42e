"""Who is let in, and what every answer says of itself."""

import re

import pytest

from cloakwork.console.guard import CONTENT_POLICY
from cloakwork.console.server import DONE, SHOWN
from console.conftest import ADDRESS, POLICY, PORT, Visitor


def test_nobody_is_let_in_without_the_link(folder):
    """Every page, and every form, is refused without a session."""
    stranger = Visitor(folder)
    for path in SHOWN:
        assert stranger.get(path.replace("{job}", "1")).status_code == 403, path
    for path in DONE:
        answer = stranger.client.post(path.replace("{job}", "1"), data={"form_token": "x"})
        assert answer.status_code == 403, path


def test_a_cookie_that_was_made_up_opens_nothing(folder):
    stranger = Visitor(folder)
    cookie = {"cookie": f"cloakwork_console_{PORT}=made-up"}
    assert stranger.get("/", headers=cookie).status_code == 403


def test_the_link_works_once(folder):
    """The second use shows a new link, in the terminal alone."""
    first, link = Visitor(folder), None
    link = f"/open?token={first.sessions.token}"
    assert first.get(link).status_code == 200
    answer = first.get(link)
    assert answer.status_code == 403
    assert first.links == [first.sessions.token]
    assert first.sessions.token not in answer.text
    assert first.get(f"/open?token={first.links[0]}").status_code == 200


def test_a_guessed_link_shows_no_new_one(folder):
    stranger = Visitor(folder)
    for token in ("", "guess", "ä"):
        assert stranger.get("/open", params={"token": token}).status_code == 403
    assert stranger.links == []


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(folder):
    visitor = Visitor(folder)
    cookie = visitor.get(f"/open?token={visitor.sessions.token}").headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert visitor.sessions.token not in cookie


def test_the_cookie_is_of_a_folder_that_only_the_session_knows(folder):
    """A server of another account on another port is sent the cookies of its own addresses."""
    visitor, other = Visitor(folder), Visitor(folder)
    below = visitor.sessions.folder
    assert len(below) > 40
    assert below != other.sessions.folder
    opened = visitor.client.get(f"{ADDRESS}/open?token={visitor.sessions.token}")
    assert f"Path={below};" in f"{opened.headers['set-cookie']};"
    for path in ("/", "/open", "/releases", "/static/console.css"):
        asked = visitor.client.get(f"http://127.0.0.1:1{path}")
        assert "cookie" not in asked.request.headers, path
    assert "cookie" in visitor.client.get("/").request.headers


def test_pages_lie_below_the_folder_alone(visitor):
    """At the root nothing answers, cookie or not; every link and form of a page leads below."""
    cookie = {"cookie": "; ".join(f"{k}={v}" for k, v in visitor.client.cookies.items())}
    for path in SHOWN:
        address = f"{ADDRESS}{path}".replace("{job}", "1")
        assert visitor.client.get(address, headers=cookie).status_code == 403, path
        links = re.findall(
            ' (?:href|src|action|formaction)="(/[^"]*)"',
            visitor.client.get(path.replace("{job}", "1")).text,
        )
        assert all(link.startswith(f"{visitor.sessions.folder}/") for link in links), path
    made = visitor.client.post(
        "/compare", data={"form_token": visitor.form_token, "policy": "x"}, follow_redirects=False
    )
    assert "location" not in made.headers
    shown = visitor.client.get("/policy", params={"file": POLICY}).text
    assert f'data-schema="{visitor.sessions.folder}/policy/schema"' in shown


def test_a_link_in_a_file_is_text(visitor, folder):
    """Only links of the templates are completed, not what looks like one in a policy."""
    text = "x: ' href=\"/registry\" '\n"
    (folder / "odd.yaml").write_text(text)
    shown = visitor.get("/policy", params={"file": "odd.yaml"}).text
    assert "href=&#34;/registry&#34;" in shown


def test_to_ask_for_the_head_alone_leaves_the_link_unused(folder):
    visitor = Visitor(folder)
    link = f"{ADDRESS}/open?token={visitor.sessions.token}"
    answer = visitor.client.head(link)
    assert (answer.status_code, "set-cookie" in answer.headers) == (200, False)
    assert visitor.client.get(link).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", f"evil.example:{PORT}", "127.0.0.1", "127.0.0.1:1", "", "0.0.0.0"]
)
def test_other_names_for_this_machine_are_refused(visitor, host):
    """A name that a stranger points at 127.0.0.1 is not the console's."""
    for path in ("/", "/open", "/static/console.css"):
        assert visitor.get(path, headers={"host": host}).status_code == 421


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
        {"origin": f"https://127.0.0.1:{PORT}"},
        {"origin": ADDRESS, "sec-fetch-site": "cross-site"},
        {"origin": ADDRESS, "sec-fetch-site": "same-site"},
    ],
)
def test_forms_of_other_sites_are_refused(visitor, headers):
    fields = {"form_token": visitor.form_token, "file": "x"}
    for path in DONE:
        answer = visitor.client.post(path.replace("{job}", "1"), data=fields, headers=headers)
        assert answer.status_code == 403, path


def test_a_form_without_an_origin_is_refused(visitor):
    token = visitor.form_token
    del visitor.client.headers["origin"]
    assert visitor.client.post("/plan", data={"form_token": token}).status_code == 403


@pytest.mark.parametrize("token", [None, "", "wrong", "ä"])
def test_forms_need_the_token_of_their_session(visitor, token):
    fields = {} if token is None else {"form_token": token}
    for path in DONE:
        answer = visitor.client.post(path.replace("{job}", "1"), data=fields)
        assert answer.status_code in (400, 403), path
        assert visitor.state.jobs.newest_first() == ()


def test_the_token_of_another_session_does_not_count(visitor, folder):
    token = visitor.form_token
    visitor.client.cookies.clear()
    visitor.enter()
    assert visitor.form_token != token
    assert visitor.client.post("/plan", data={"form_token": token}).status_code == 403


def test_what_is_no_form_is_refused(visitor):
    assert visitor.client.post("/plan", json={"form_token": "x"}).status_code == 400
    too_large = b"form_token=" + b"x" * 5_000_000
    kind = {"content-type": "application/x-www-form-urlencoded"}
    assert visitor.client.post("/plan", content=too_large, headers=kind).status_code == 400


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"])
def test_other_methods_are_refused(visitor, method):
    assert visitor.client.request(method, "/").status_code == 405


@pytest.mark.parametrize("path", ["/", "/policies", "/nothing", "/static/console.js", "/open"])
def test_every_answer_forbids_what_the_console_does_not_need(visitor, path):
    """Refusals and static files included; no answer invites another site."""
    headers = visitor.get(path).headers
    assert headers["content-security-policy"] == CONTENT_POLICY
    assert headers["x-frame-options"] == "DENY"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert headers["referrer-policy"] == "same-origin"
    assert not [name for name in headers if name.startswith("access-control")]


def test_the_policy_of_content_allows_no_inline_script_or_style():
    assert "unsafe" not in CONTENT_POLICY
    assert "default-src 'none'" in CONTENT_POLICY
    assert "frame-ancestors 'none'" in CONTENT_POLICY
