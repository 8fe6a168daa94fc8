"""The form that adds a webhook, for the page and for the command."""

from django import forms

from replview.features.alerts.webhooks import WebhookRefused, is_public, parse_url
from replview.store.models import Webhook

_NAME_NEEDED = "Give it a name of at most 100 characters"
_FORMAT_NEEDED = f"Choose a format: {' or '.join(Webhook.Format.values)}"
_SECRET_LIMIT = 200


class WebhookForm(forms.Form):
    """The form of a new webhook. Its address and its secret are never shown again."""

    name = forms.CharField(
        label="Name",
        max_length=100,
        error_messages=dict.fromkeys(("required", "max_length"), _NAME_NEEDED),
    )
    format = forms.ChoiceField(
        choices=Webhook.Format.choices,
        initial=Webhook.Format.JSON,
        error_messages=dict.fromkeys(("required", "invalid_choice"), _FORMAT_NEEDED),
    )
    #: Stands before the address, whose check depends on it.
    allow_private = forms.BooleanField(required=False)
    url = forms.CharField(
        label="Address",
        help_text="Stored encrypted; only its host is shown again.",
        error_messages={"required": "Enter the address to which alerts are sent"},
    )
    secret = forms.CharField(
        label="Secret",
        help_text="Signs each message; empty: one is generated.",
        max_length=_SECRET_LIMIT,
        required=False,
        error_messages={"max_length": f"At most {_SECRET_LIMIT} characters"},
    )
    only_now = forms.BooleanField(required=False)

    def clean_name(self) -> str:
        """Refuse the name of another webhook."""
        name: str = self.cleaned_data["name"]
        if Webhook.objects.filter(name=name).exists():
            raise forms.ValidationError("There is a webhook of this name already")
        return name

    def clean_url(self) -> str:
        """Refuse an address that may not be called; a host's name is checked at each call."""
        url: str = self.cleaned_data["url"]
        try:
            host = parse_url(url).hostname or ""
        except WebhookRefused as error:
            raise forms.ValidationError(f"{str(error)[:1].upper()}{str(error)[1:]}") from None
        try:
            public = is_public(host)
        except ValueError:
            public = host != "localhost"
        if not public and not self.cleaned_data["allow_private"]:
            raise forms.ValidationError(
                "This is a private address: allow private addresses to use it"
            )
        return url
