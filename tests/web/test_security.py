"""Nothing inline, nothing from elsewhere, on any page."""

import re

import pytest
from django.test import Client

from tests.web.scene import Scene

PAGES = ["/", "/sources/", "/slots/", "/components/", "/live/"]


def directives(header: str) -> dict[str, str]:
    return dict(part.strip().split(" ", 1) for part in header.split(";"))


@pytest.mark.parametrize("page", ["/login/", *PAGES, "/nowhere/"])
def test_the_policy_lets_nothing_in_from_elsewhere(signed_in: Client, scene, page: str) -> None:
    response = signed_in.get(page)

    policy = directives(response["Content-Security-Policy"])
    assert policy["default-src"] == policy["script-src"] == policy["style-src"] == "'self'"
    assert policy["connect-src"] == "'self' ws://testserver"
    assert policy["frame-ancestors"] == policy["object-src"] == "'none'"


@pytest.mark.parametrize("page", ["/login/", *PAGES])
def test_no_script_and_no_style_stands_inside_a_page(
    signed_in: Client, scene: Scene, page: str
) -> None:
    text = signed_in.get(page).content.decode()

    assert not re.findall(r"<script(?![^>]*\bsrc=)", text)
    assert not re.findall(r"<style\b|\sstyle=", text)
    assert not re.findall(r"\son[a-z]+=", text)
    assert not re.findall(r"javascript:", text)


@pytest.mark.parametrize("page", ["/login/", *PAGES])
def test_nothing_is_loaded_from_another_host(signed_in: Client, scene, page: str) -> None:
    text = signed_in.get(page).content.decode()

    addresses = re.findall(r'(?:src|href|action)="([^"]*)"', text)
    assert addresses
    assert all(address.startswith(("/", "#", "?")) for address in addresses), addresses
