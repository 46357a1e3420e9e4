"""The plugin's options: ``[plugins.options.log_s3]``."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Self

from pydantic import Field, SecretStr, model_validator
from xwheel.plugin import PluginOptions

PLUGIN: Final = "log_s3"


class Options(PluginOptions):
    """Where logs are kept, and how long a call may take."""

    public = ("bucket", "prefix", "endpoint_url", "region")

    bucket: str = Field(default="", max_length=255, pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/-]*$|^$")
    """The bucket, which must be there already; needed where the settings choose this store."""
    prefix: str = Field(default="xwheel-logs", max_length=200, pattern=r"^[A-Za-z0-9._=-]+(/[A-Za-z0-9._=-]+)*$|^$")
    """What the names of all objects begin with; empty for nothing."""
    endpoint_url: str | None = Field(default=None, max_length=500, pattern=r"^https?://[^/@\s]+(/[^@\s]*)?$")
    """Address of a service other than Amazon's, such as https://minio.example.com:9000."""
    region: str | None = Field(default=None, max_length=64, pattern=r"^[a-z0-9-]+$")
    """The bucket's region; what boto3 finds if not given."""
    path_style: bool = False
    """Name the bucket in the path instead of the host, as most services other than Amazon's want it."""
    access_key_id: str | None = Field(default=None, min_length=1, max_length=256)
    """Id of the access key. If not given, boto3 looks for one: environment, files, the machine's or the pod's role."""
    secret_access_key: SecretStr | None = None
    """Its secret."""
    secret_access_key_file: Path | None = None
    """A file that holds the secret."""
    ca_file: Path | None = None
    """PEM file of the authorities that are trusted instead of the usual ones."""
    connect_timeout_s: float = Field(default=2, ge=0.1, le=60)
    """The longest wait for a connection."""
    read_timeout_s: float = Field(default=4, ge=0.1, le=300)
    """The longest silence of the service within one request."""
    attempts: int = Field(default=2, ge=1, le=5)
    """How often a request is sent that fails or that the service refuses for now."""
    timeout_s: float = Field(default=8, ge=0.5, le=600)
    """A call begins no further request after this long; keep it below run_logs.call_timeout_s."""
    parallel: int = Field(default=16, ge=1, le=64)
    """Requests at the same time for one call."""

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if (self.access_key_id is None) != (self.secret_access_key is None):
            raise ValueError(
                "access_key_id and secret_access_key (or secret_access_key_file) belong together: give both or none"
            )
        return self
