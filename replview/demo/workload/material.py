"""This module invents people, places and words once, as each invention costs more than a query."""

import random
import uuid
from dataclasses import dataclass

FIRST_NAMES = (
    "Ada", "Bruno", "Carla", "Dmitri", "Elif", "Farid", "Greta", "Henry", "Ines", "Jonas",
    "Katya", "Liam", "Mina", "Noor", "Oscar", "Priya", "Quentin", "Rosa", "Søren", "Tomasz",
    "Umberto", "Vera", "Wei", "Yusuf", "Zoë",
)  # fmt: skip
LAST_NAMES = (
    "Abel", "Brandt", "Castillo", "Dubois", "Eriksen", "Fischer", "Gupta", "Haddad", "Ito",
    "Jansen", "Kowalski", "Lindqvist", "Moreau", "Nakamura", "Okafor", "Petrov", "Quispe",
    "Rossi", "Schulz", "Tanaka", "Usman", "Vogel", "Weber", "Yilmaz", "Zhang",
)  # fmt: skip
STREETS = ("Mill Lane", "Hafenstraße", "Rue des Tilleuls", "Station Road", "Via Roma")
CITIES = ("Berlin", "Hamburg", "Lyon", "Leeds", "Gdańsk", "Torino", "Bristol", "Köln")
WHO = ("The customer", "A neighbour", "The courier", "Our warehouse", "The bakery next door")
DID = ("asked for", "sent back", "praised", "was missing", "kept", "could not find", "unpacked")
WHAT = (
    "the blue mug", "the green mug", "two tins of Assam", "the kettle", "a chipped teapot",
    "the wrong filters", "the gift wrap", "an invoice", "the hand mill", "six spoons",
)  # fmt: skip
WHEN = ("before noon", "on the second try", "again", "without a receipt", "at the side door")
WAREHOUSES = ("berlin", "hamburg", "lyon")
CURRENCIES = ("EUR", "USD", "GBP", "CHF", "SEK")
CARRIERS = ("dhl", "dpd", "hermes", "post")
METHODS = ("card", "card", "paypal", "sepa", "invoice", "gift card")
ACTORS = ("alice", "bob", "chen", "divya", "emil", "fatima", "george", "hana")
TAGS = ("newsletter", "wholesale", "student", "returns often", "bakery", "b2b", "tea club")
REGIONS = ("north", "south", "east", "west", "islands")

#: Number of invented values of each kind.
POOL = 200


@dataclass(frozen=True)
class Person:
    """An invented person."""

    name: str
    mailbox: str
    phone: str
    address: dict[str, str]


@dataclass(frozen=True)
class Material:
    """The values of which the shop's rows are made."""

    people: tuple[Person, ...]
    sentences: tuple[str, ...]

    def words(self, rng: random.Random, *, at_least: int) -> str:
        """Return readable text of at least this many characters."""
        parts: list[str] = []
        length = 0
        while length < at_least:
            parts.append(rng.choice(self.sentences))
            length += len(parts[-1]) + 1
        return " ".join(parts)


def invent(seed: int) -> Material:
    """Return the material; the same seed gives the same people."""
    rng = random.Random(seed)
    people = tuple(_invent_person(rng) for _ in range(POOL))
    sentences = tuple(
        " ".join(rng.choice(words) for words in (WHO, DID, WHAT, WHEN)) + "." for _ in range(POOL)
    )
    return Material(people=people, sentences=sentences)


def _invent_person(rng: random.Random) -> Person:
    """Return a person, with a phone number from a range reserved for fiction."""
    first, last = rng.choice(FIRST_NAMES), rng.choice(LAST_NAMES)
    address = {
        "street": f"{rng.choice(STREETS)} {rng.randint(1, 140)}",
        "postcode": f"{rng.randint(10_000, 99_999)}",
        "city": rng.choice(CITIES),
    }
    phone = f"+44 20 7946 0{rng.randint(0, 999):03}"
    return Person(f"{first} {last}", f"{first}.{last}".lower(), phone, address)


def random_uuid(rng: random.Random) -> uuid.UUID:
    """Return a version 4 UUID from the given generator, so that a seed repeats it."""
    return uuid.UUID(int=rng.getrandbits(128), version=4)


def random_ip(rng: random.Random) -> str:
    """Return an address from the blocks reserved for documentation."""
    if rng.random() < 0.2:
        return f"2001:db8::{rng.getrandbits(16):x}"
    return f"{rng.choice(('192.0.2', '198.51.100', '203.0.113'))}.{rng.randint(1, 254)}"


def new_customer(rng: random.Random, material: Material) -> dict[str, object]:
    """Return the values of a customer, by column; the email address is unique."""
    person = rng.choice(material.people)
    return {
        "id": random_uuid(rng),
        "email": f"{person.mailbox}.{rng.getrandbits(40):x}@example.com",
        "full_name": person.name,
        "phone": person.phone if rng.random() < 0.8 else None,
        "address": person.address,
        "tags": rng.sample(TAGS, rng.randint(0, 3)),
        "birthday": f"{rng.randint(1950, 2007)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}",
        "vip": rng.random() < 0.1,
        "last_ip": random_ip(rng),
    }


def new_shipping(rng: random.Random, address: dict[str, str]) -> dict[str, object]:
    """Return the shipping document of a new order, which is nested and changes later."""
    return {"address": address, "carrier": rng.choice(CARRIERS), "eta": None, "state": "draft",
            "parcels": rng.randint(1, 3)}  # fmt: skip


def invoice_pdf(rng: random.Random) -> bytes:
    """Return bytes that stand for an invoice, large enough to be stored out of line (TOAST)."""
    return b"%PDF-1.7\n" + rng.randbytes(rng.randint(8_500, 12_000))
