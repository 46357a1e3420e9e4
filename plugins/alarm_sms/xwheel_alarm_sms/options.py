"""The plugin's options: ``[plugins.options.alarm_sms]``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final, Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator
from xwheel.plugin import PluginOptions
from xwheel_alarms import AlarmTemplate

from xwheel_alarm_sms.numbers import parse_number

PLUGIN: Final = "alarm_sms"
EXTRA: Final = ("message", "number", "digits", "secret")
MAX_RECEIVERS: Final = 50
MAX_BODY_DEPTH: Final = 5
# what a header may hold besides plain text; an alarm's words could end it and begin another one
_IN_HEADERS: Final = {"id", "number", "digits", "secret"}
_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


class GatewayOptions(PluginOptions):
    """A gateway that takes one HTTP request for a message."""

    public = ("success_field", "success_values")

    url: SecretStr
    """Where to; a template, whose values are percent-encoded."""
    method: Literal["GET", "POST", "PUT"] = "POST"
    """How."""
    query: dict[str, SecretStr] = Field(default_factory=dict, max_length=50)
    """Parameters that are added to the URL; each is a template."""
    headers: dict[str, SecretStr] = Field(default_factory=dict, max_length=50)
    """Headers; each is a template that knows {secret}, {id}, {number} and {digits}."""
    body: dict[str, Any] = Field(default_factory=dict, max_length=50, repr=False, exclude=True)
    """The body; its texts are templates, in tables and lists too. Empty for none."""
    body_type: Literal["json", "form"] = "json"
    """How the body is written; a form holds texts only."""
    secret: SecretStr | None = None
    """What {secret} stands for, such as a key."""
    secret_file: Path | None = None
    """A file that holds the secret."""
    success_status: tuple[int, ...] = Field(default=(), max_length=50)
    """The statuses that mean success; any from 200 to 299 if not given."""
    success_field: str = Field(default="", max_length=200)
    """A field of a JSON answer that must have one of success_values; a path such as data.0.status."""
    success_values: tuple[str, ...] = Field(default=(), max_length=50)
    """Its values as texts; a number or true, false and null as JSON writes them."""

    @field_validator("url")
    @classmethod
    def _check_url(cls, value: SecretStr) -> SecretStr:
        AlarmTemplate(value.get_secret_value(), EXTRA)
        return value

    @field_validator("query")
    @classmethod
    def _check_query(cls, value: dict[str, SecretStr]) -> dict[str, SecretStr]:
        for text in value.values():
            AlarmTemplate(text.get_secret_value(), EXTRA)
        return value

    @field_validator("headers")
    @classmethod
    def _check_headers(cls, value: dict[str, SecretStr]) -> dict[str, SecretStr]:
        for name, text in value.items():
            if not _HEADER.fullmatch(name):
                raise ValueError("a name of a header may hold letters, digits and -")
            beyond = AlarmTemplate(text.get_secret_value(), EXTRA).names - _IN_HEADERS
            if beyond:
                raise ValueError(f"{{{min(beyond)}}} may not stand in a header; {_listed(_IN_HEADERS)} may")
        return value

    @field_validator("body")
    @classmethod
    def _check_body(cls, value: dict[str, Any]) -> dict[str, Any]:
        _check_templates(value, MAX_BODY_DEPTH)
        return value

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if self.method == "GET" and self.body:
            raise ValueError("method GET has no body: take query, or method POST")
        if self.body_type == "form" and not all(isinstance(value, str) for value in self.body.values()):
            raise ValueError("body of a form may hold texts only: take body_type 'json'")
        if bool(self.success_field) != bool(self.success_values):
            raise ValueError("success_field and success_values belong together: give both or none")
        if self.secret is None and "{secret}" in self._all_templates():
            raise ValueError("{secret} is used, but neither secret nor secret_file is given")
        return self

    def _all_templates(self) -> str:
        texts = [self.url, *self.query.values(), *self.headers.values()]
        return " ".join(text.get_secret_value() for text in texts) + repr(self.body)


class AliyunOptions(PluginOptions):
    """An account and a template of Aliyun's (Alibaba Cloud's) SMS service."""

    public = ("sign_name", "template_code", "params", "endpoint")

    required_secrets = ("access_key_secret",)

    access_key_id: str = Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9._-]+$")
    """The account's key."""
    access_key_secret: SecretStr | None = None
    """The key's secret; this or access_key_secret_file must be given."""
    access_key_secret_file: Path | None = None
    """A file that holds the secret."""
    sign_name: str = Field(min_length=1, max_length=100)
    """The approved signature."""
    template_code: str = Field(min_length=1, max_length=64)
    """The approved template, such as SMS_123456."""
    params: dict[str, str] = Field(default_factory=dict, max_length=20)
    """The template's variables; each value is a template."""
    max_param_length: int = Field(default=35, ge=1, le=500)
    """Characters to which a variable is cut."""
    endpoint: str = Field(default="https://dysmsapi.aliyuncs.com", pattern=r"^https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?$")
    """The service's address."""

    @field_validator("params")
    @classmethod
    def _check_params(cls, value: dict[str, str]) -> dict[str, str]:
        for text in value.values():
            if "secret" in AlarmTemplate(text, EXTRA).names:
                raise ValueError("{secret} has no place in a message")
        return value


class Options(PluginOptions):
    """The provider, the receivers and the limits."""

    public = ("receivers", "text")

    gateway: GatewayOptions | None = None
    """A gateway with a plain HTTP interface."""
    aliyun: AliyunOptions | None = None
    """An account at Aliyun."""
    receivers: tuple[str, ...] = Field(default=(), max_length=MAX_RECEIVERS)
    """Who gets alarms whose rule names no receivers."""
    text: str = Field(default="xwheel: {title}", min_length=1, max_length=2000)
    """Template of what {message} stands for."""
    max_length: int = Field(default=300, ge=20, le=2000)
    """Characters to which {message} and every other value are cut."""
    per_number: int = Field(default=10, ge=1, le=1000)
    """How many messages a number gets in a window; more are held back."""
    window_s: int = Field(default=600, ge=1, le=604_800)
    """Length of that window."""
    timeout_s: float = Field(default=10, ge=1, le=60)
    """The longest time that one alarm may take, with all its receivers."""

    @field_validator("receivers")
    @classmethod
    def _check_receivers(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(parse_number(receiver) for receiver in value))

    @field_validator("text")
    @classmethod
    def _check_text(cls, value: str) -> str:
        AlarmTemplate(value)
        return value

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if (self.gateway is None) == (self.aliyun is None):
            raise ValueError("give one of the tables gateway and aliyun")
        return self


def _check_templates(value: Any, depth: int) -> None:
    if depth < 0:
        raise ValueError(f"may be {MAX_BODY_DEPTH} tables and lists deep")
    if isinstance(value, str):
        AlarmTemplate(value, EXTRA)
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            _check_templates(item, depth - 1)


def _listed(names: set[str]) -> str:
    return ", ".join(f"{{{name}}}" for name in sorted(names))
