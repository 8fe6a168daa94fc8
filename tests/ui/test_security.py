"""Nothing inline, nothing from elsewhere, on any page."""

import re

import pytest
from django.test import Client

from tests.support.content_policy import directives
from tests.support.scene import Scene

PAGES = ["/login/", "/", "/sources/", "/slots/", "/components/", "/live/"]


def test_the_policy_lets_nothing_in_from_elsewhere(
    signed_in: Client, scene: Scene, subtests: pytest.Subtests
) -> None:
    for page in (*PAGES, "/nowhere/"):
        with subtests.test(page):
            response = signed_in.get(page)

            policy = directives(response["Content-Security-Policy"])
            assert policy["default-src"] == policy["script-src"] == policy["style-src"] == "'self'"
            assert policy["connect-src"] == "'self' ws://testserver"
            assert policy["frame-ancestors"] == policy["object-src"] == "'none'"


def test_static_files_have_the_policy_and_are_for_this_site_alone(client: Client) -> None:
    response = client.get("/static/js/ui/shell.js")

    assert response.status_code == 200
    assert "default-src 'self'" in response["Content-Security-Policy"]
    assert "Access-Control-Allow-Origin" not in response


def test_an_answer_to_a_host_we_are_not_has_the_policy_too(client: Client, db) -> None:
    response = client.get("/login/", headers={"host": "elsewhere.example"})

    assert response.status_code == 400
    assert directives(response["Content-Security-Policy"])["connect-src"] == "'self'"


def test_no_script_and_no_style_stands_inside_a_page(
    signed_in: Client, scene: Scene, subtests: pytest.Subtests
) -> None:
    for page in PAGES:
        with subtests.test(page):
            text = signed_in.get(page).content.decode()

            assert not re.findall(r"<script(?![^>]*\bsrc=)", text)
            assert not re.findall(r"<style\b|\sstyle=", text)
            assert not re.findall(r"\son[a-z]+=", text)
            assert not re.findall(r"javascript:", text)


def test_nothing_is_loaded_from_another_host(
    signed_in: Client, scene: Scene, subtests: pytest.Subtests
) -> None:
    for page in PAGES:
        with subtests.test(page):
            text = signed_in.get(page).content.decode()

            addresses = re.findall(r'(?:src|href|action)="([^"]*)"', text)
            assert addresses
            assert all(address.startswith(("/", "#", "?")) for address in addresses), addresses


def test_a_form_without_its_token_is_refused_with_what_to_do(db) -> None:
    answer = Client(enforce_csrf_checks=True).post("/login/", {"username": "bo", "password": "x"})

    assert answer.status_code == 403
    assert "Go back, reload the page" in answer.content.decode()
    assert directives(answer["Content-Security-Policy"])["script-src"] == "'self'"
