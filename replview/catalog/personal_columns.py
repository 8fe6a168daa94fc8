"""This module finds columns whose names suggest a secret or something about a person.

Only names are examined, never values. A name is suggested if it is a word of the list, or has one
as a part between underscores or capitals (``emailAddress``). Nothing is decided by it.
"""

import re

#: Words by what they suggest.
_WORDS_BY_SUGGESTION = {
    "a secret": (
        "password passwd pwd passphrase secret token apikey api_key access_key private_key "
        "credential credentials otp totp pin salt hash_password password_hash cvv cvc"
    ),
    "a document": "ssn social_security passport national_id tax_id "
    "driving_licence driver_license license_number",
    "a payment": "card_number cardnumber credit_card card_no account_number "
    "bank_account iban bic swift",
    "a contact": "email e_mail mail phone telephone mobile fax msisdn",
    "a name": "first_name firstname last_name lastname surname full_name fullname maiden_name "
    "given_name family_name",
    "a place": "address street postcode postal_code zip zipcode zip_code latitude longitude "
    "geolocation ip_address ip_addr remote_addr",
    "a personal fact": "birth birthday birthdate birth_date dob date_of_birth gender sex religion "
    "ethnicity nationality diagnosis blood_type salary income",
}
_SUGGESTION_BY_WORD = {
    word: looks for looks, words in _WORDS_BY_SUGGESTION.items() for word in words.split()
}
_CAMEL_CASE_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def looks_like(column: str) -> str:
    """Return what the name suggests, such as ``a contact``; empty: nothing."""
    name = _CAMEL_CASE_BOUNDARY.sub("_", column).lower().replace("-", "_").replace(" ", "_")
    parts = [part for part in name.split("_") if part]
    # Longer runs of parts are tried first: ``postal_code`` before ``code``.
    for length in range(min(len(parts), 3), 0, -1):
        for start in range(len(parts) - length + 1):
            for joined in ("_".join, "".join):
                if suggestion := _SUGGESTION_BY_WORD.get(joined(parts[start : start + length])):
                    return suggestion
    return ""
