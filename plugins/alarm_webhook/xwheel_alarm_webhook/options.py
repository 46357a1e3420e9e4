"""The plugin's options: ``[plugins.options.alarm_webhook]``, with a table for each robot."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, Self

from pydantic import Field, SecretStr, StringConstraints, field_validator, model_validator
from xwheel import plugin
from xwheel.plugin import ConfigError, PluginOptions
from xwheel_alarms import ALARM_PLACEHOLDERS, AlarmTemplate
from xwheel_egress import EgressClient, EgressRefusedError

from xwheel_alarm_webhook import robots
from xwheel_alarm_webhook.robots import Robot

if TYPE_CHECKING:
    from xwheel import Config

PLUGIN: Final = "alarm_webhook"
DEFAULT_TEXT: Final = "{text}"
"""Its first line is the title."""

DEFAULT_BODY: Final = (
    '{"id": {id}, "kind": "{kind}", "time": "{time}", "title": "{title}", "text": "{text}", "reason": "{reason}", '
    '"count": {count}, "job": "{job}", "job_id": "{job_id}", "group": "{group}", "run_id": "{run_id}"}'
)
NAME: Final = r"^[A-Za-z0-9_.-]{1,64}$"
_CHAT: Final = re.compile(r"-?[0-9]{1,20}|@[A-Za-z0-9_]{1,64}")

Name = Annotated[str, StringConstraints(pattern=NAME)]
Mention = Annotated[str, StringConstraints(pattern=robots.MENTION)]


class _Options(PluginOptions):
    """What the robots of all kinds have."""

    public = ("text", "mention", "chat", "server", "expect")

    @field_validator("text", "body", check_fields=False)
    @classmethod
    def _placeholders(cls, text: str) -> str:
        AlarmTemplate(text)
        return text

    def robot(self) -> Robot:
        """Return the robot."""
        raise NotImplementedError


class _ChatOptions(_Options):
    text: str = Field(
        DEFAULT_TEXT, max_length=4000, description="The message; placeholders such as `{title}` and `{text}`."
    )


class _UrlOptions(_ChatOptions):
    required_secrets = ("url",)
    url: SecretStr | None = Field(None, description="Address of the webhook, as the provider shows it.")
    url_file: Path | None = Field(None, description="File that holds the address.")
    mention: tuple[Mention, ...] = Field((), max_length=50, description="Who is mentioned by every alarm.")

    @property
    def address(self) -> str:
        """The URL."""
        return _text(self.url)


class _SignedOptions(_UrlOptions):
    secret: SecretStr | None = Field(None, description="Key for the signature, if the robot wants one.")
    secret_file: Path | None = Field(None, description="File that holds the key.")


class DingTalkOptions(_SignedOptions):
    """A custom robot of DingTalk; mentions are mobile numbers, user ids, or `all`."""

    def robot(self) -> Robot:
        """Return the robot."""
        return robots.DingTalk(self.address, self.text, self.mention, _text(self.secret))


class WeComOptions(_UrlOptions):
    """A group robot of WeCom; mentions are mobile numbers, user ids, or `all`."""

    def robot(self) -> Robot:
        """Return the robot."""
        return robots.WeCom(self.address, self.text, self.mention)


class FeishuOptions(_SignedOptions):
    """A custom robot of Feishu or Lark; mentions are user ids or open ids, or `all`."""

    def robot(self) -> Robot:
        """Return the robot."""
        return robots.Feishu(self.address, self.text, self.mention, _text(self.secret))


class SlackOptions(_UrlOptions):
    """An incoming webhook of Slack; mentions are member ids, or `here`, `channel`, `everyone`."""

    def robot(self) -> Robot:
        """Return the robot."""
        return robots.Slack(self.address, self.text, self.mention)


class TelegramOptions(_ChatOptions):
    """A bot of Telegram in one chat; mentions are user names."""

    required_secrets = ("token",)

    token: SecretStr | None = Field(None, description="Token of the bot.")
    token_file: Path | None = Field(None, description="File that holds the token.")
    chat: str = Field(description="Number of the chat, or `@` and the channel's name.")
    server: str = Field("https://api.telegram.org", description="Origin of the Bot API, for a server of your own.")
    mention: tuple[Mention, ...] = Field((), max_length=50, description="Who is mentioned by every alarm.")

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if not re.fullmatch(r"[0-9A-Za-z:_-]{1,200}", _text(self.token)):
            raise ValueError("token must be one of Telegram's, such as 123456:ABC-DEF")
        if not _CHAT.fullmatch(self.chat):
            raise ValueError("chat must be a number, or @ and the channel's name")
        return self

    def robot(self) -> Robot:
        """Return the robot."""
        return robots.Telegram(self.server, self.text, self.mention, _text(self.token), self.chat)


class WebhookOptions(_Options):
    """Any other webhook."""

    required_secrets = ("url",)

    url: SecretStr | None = Field(None, description="Address of the webhook.")
    url_file: Path | None = Field(None, description="File that holds the address.")
    method: Literal["POST", "PUT", "PATCH", "GET"] = Field("POST", description="Method of the request.")
    headers: dict[str, SecretStr] = Field(default_factory=dict, description="Headers of the request.")
    content_type: Literal["application/json", "application/x-www-form-urlencoded", "text/plain"] = Field(
        "application/json", description="What the body is; values are escaped for it."
    )
    body: str = Field(
        DEFAULT_BODY, max_length=16_000, description="The body; placeholders such as `{title}` and `{text}`."
    )
    max_text: int = Field(8000, ge=10, le=100_000, description="Bytes of `{text}` that are sent; more is cut.")
    expect: str = Field("", description="What a good answer's body holds; empty for anything.")

    @model_validator(mode="after")
    def _is_json(self) -> Self:
        if self.content_type == "application/json" and self.method != "GET":
            sample = {**dict.fromkeys(ALARM_PLACEHOLDERS, "a"), "id": "1", "count": "1"}
            try:
                json.loads(AlarmTemplate(self.body).fill(sample))
            except ValueError:
                raise ValueError(
                    "body must be JSON; placeholders other than {id} and {count} stand between quotes"
                ) from None
        return self

    def robot(self) -> Robot:
        """Return the robot."""
        headers = {name: value.get_secret_value() for name, value in self.headers.items()}
        return robots.Webhook(
            _text(self.url),
            self.body,
            method=self.method,
            headers=headers,
            content_type=self.content_type,
            max_text=self.max_text,
            expect=self.expect,
        )


class Options(PluginOptions):
    """The plugin's options: a table of robots by name for each kind."""

    timeout_s: float = Field(
        8,
        gt=0,
        le=60,
        description="Limit for an alarm to all robots that it goes to, in seconds; never over nine tenths of "
        "`alarm.send_timeout_s`.",
    )
    dingtalk: dict[Name, DingTalkOptions] = Field(default_factory=dict, description="Robots of DingTalk.")
    wecom: dict[Name, WeComOptions] = Field(default_factory=dict, description="Robots of WeCom.")
    feishu: dict[Name, FeishuOptions] = Field(default_factory=dict, description="Robots of Feishu or Lark.")
    slack: dict[Name, SlackOptions] = Field(default_factory=dict, description="Webhooks of Slack.")
    telegram: dict[Name, TelegramOptions] = Field(default_factory=dict, description="Bots of Telegram.")
    webhook: dict[Name, WebhookOptions] = Field(default_factory=dict, description="Other webhooks.")

    def robots(self) -> dict[str, dict[str, Robot]]:
        """Return the robots by kind and name."""
        tables: dict[str, Mapping[str, _Options]] = {
            "dingtalk": self.dingtalk,
            "wecom": self.wecom,
            "feishu": self.feishu,
            "slack": self.slack,
            "telegram": self.telegram,
            "webhook": self.webhook,
        }
        return {kind: {name: one.robot() for name, one in table.items()} for kind, table in tables.items()}


def read_options(config: Config, client: EgressClient) -> Options:
    """Return the options, checked.

    Raises:
        ConfigError: One is not known or not acceptable, or the egress policy forbids a call; the message names it.
    """
    options = plugin.read_options(config, PLUGIN, Options)
    for kind, by_name in options.robots().items():
        for name, robot in by_name.items():
            try:
                robot.check(client)
            except EgressRefusedError as error:
                raise ConfigError(f"plugins.options.{PLUGIN}.{kind}.{name}: {error}") from None
    return options


def _text(secret: SecretStr | None) -> str:
    return "" if secret is None else secret.get_secret_value()
