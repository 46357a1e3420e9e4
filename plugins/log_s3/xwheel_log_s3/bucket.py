"""The objects of one bucket, through boto3; errors name the place and the reason, and hold no secret."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from xwheel.plugin import SecretMask

from xwheel_log_s3.options import Options
from xwheel_log_s3.parallel import Deadline, run_all

logger = logging.getLogger(__name__)

BATCH: Final = 1000
"""Names in one request to list or to delete: the protocol's own limit."""

MAX_WORDS: Final = 400
MAX_PAGES: Final = 1000
POOL: Final = 64
TAKEN: Final = frozenset({409, 412})
MISSING: Final = frozenset({"NoSuchKey", "404"})
# what services answer to a condition, or to deleting several objects at once, that they do not know
UNKNOWN: Final = frozenset({"NotImplemented", "InvalidArgument", "InvalidRequest", "MalformedXML", "MissingContentMD5"})
UNKNOWN_STATUS: Final = frozenset({405, 501})


class LogS3Error(Exception):
    """The service did not do what it was asked; the message names its place and the reason.

    Attributes:
        code: What the service calls the reason, if it answered.
        status: The answer's status; 0 without one.
    """

    def __init__(self, words: str, *, code: str = "", status: int = 0) -> None:
        super().__init__(words)
        self.code, self.status = code, status

    @property
    def is_unknown(self) -> bool:
        """Whether the service does not know what it was asked for."""
        return self.code in UNKNOWN or self.status in UNKNOWN_STATUS


class MissingObjectError(LogS3Error):
    """There is no such object, or not any more."""


class Bucket:
    """Puts, gets, lists and deletes objects; the first call makes the client.

    Args:
        options: The plugin's options.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        secret = options.secret_access_key
        self._mask = SecretMask([secret.get_secret_value() if secret is not None else ""])
        self._guard = threading.Lock()
        self._client: Any = None
        self._owner = 0
        # found out when the service refuses it
        self._knows_conditions = True
        self._deletes_many = True

    def put(self, name: str, body: bytes, deadline: Deadline, *, only_new: bool = False) -> bool:
        """Write an object; return False if there is one of that name and it must be new.

        A service that does not know this condition writes the object in any case.
        """
        words = {"Bucket": self._options.bucket, "Key": name, "Body": body, "ContentType": "application/gzip"}
        if only_new and self._knows_conditions:
            try:
                with self._told(deadline) as client:
                    client.put_object(**words, IfNoneMatch="*")
                return True
            except LogS3Error as error:
                if error.status in TAKEN:
                    return False
                if not error.is_unknown:
                    raise
                self._knows_conditions = False
                logger.info("the service does not know conditional writes: %s", error)
        with self._told(deadline) as client:
            client.put_object(**words)
        return True

    def get(self, name: str, deadline: Deadline) -> bytes:
        """Return an object's content.

        Raises:
            MissingObjectError: There is none.
        """
        pieces = []
        try:
            with self._told(deadline) as client:
                answer = client.get_object(Bucket=self._options.bucket, Key=name)
                with answer["Body"] as body:
                    while piece := body.read(1 << 20):
                        pieces.append(piece)
                        deadline.check()
        except LogS3Error as error:
            if error.code in MISSING:
                raise MissingObjectError(str(error), code=error.code, status=error.status) from None
            raise
        return b"".join(pieces)

    def names(self, folder: str, deadline: Deadline) -> list[str]:
        """Return the names of the objects in a folder, without it."""
        found: list[str] = []
        more: dict[str, str] = {}
        for _ in range(MAX_PAGES):
            with self._told(deadline) as client:
                page = client.list_objects_v2(Bucket=self._options.bucket, Prefix=folder, **more)
            found += [str(item["Key"])[len(folder) :] for item in page.get("Contents", ())]
            token = page.get("NextContinuationToken")
            if not page.get("IsTruncated") or not token:
                break
            more = {"ContinuationToken": token}
        return found

    def delete(self, names: Sequence[str], deadline: Deadline) -> None:
        """Delete objects; those that are not there count as deleted."""
        for start in range(0, len(names), BATCH):
            self._delete(names[start : start + BATCH], deadline)

    def _delete(self, names: Sequence[str], deadline: Deadline) -> None:
        bucket = self._options.bucket
        if self._deletes_many and len(names) > 1:
            wanted = {"Objects": [{"Key": name} for name in names], "Quiet": True}
            try:
                with self._told(deadline) as client:
                    answer = client.delete_objects(Bucket=bucket, Delete=wanted)
            except LogS3Error as error:
                if not error.is_unknown:
                    raise
                self._deletes_many = False
                logger.info("the service does not delete several objects at once: %s", error)
            else:
                for failed in answer.get("Errors", ()):
                    words = self._words(f"{failed.get('Code')}: {failed.get('Message')}")
                    raise LogS3Error(f"{self._place()}: cannot delete {failed.get('Key')}: {words}")
                return

        def one(name: str) -> None:
            with self._told(deadline) as client:
                client.delete_object(Bucket=bucket, Key=name)

        run_all([lambda name=name: one(name) for name in names], self._options.parallel)  # type: ignore[misc]

    @contextmanager
    def _told(self, deadline: Deadline) -> Iterator[Any]:
        """Give the client, and turn its errors into ours."""
        from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]

        try:
            deadline.check()
            yield self._get_client()
        except ClientError as error:
            about = error.response.get("Error", {})
            words = f"{about.get('Code', 'error')}: {about.get('Message', '')}"
            status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
            raise LogS3Error(
                f"{self._place()}: {self._words(words)}", code=str(about.get("Code", "")), status=status
            ) from None
        except (BotoCoreError, OSError, ValueError) as error:
            raise LogS3Error(f"{self._place()}: {self._words(str(error) or type(error).__name__)}") from None

    def _get_client(self) -> Any:
        with self._guard:
            if self._client is None or self._owner != os.getpid():
                self._client, self._owner = self._open(), os.getpid()
            return self._client

    def _open(self) -> Any:
        import boto3  # type: ignore[import-untyped]
        from botocore.config import Config  # type: ignore[import-untyped]

        options = self._options
        secret = options.secret_access_key
        return boto3.session.Session().client(
            "s3",
            endpoint_url=options.endpoint_url,
            region_name=options.region,
            aws_access_key_id=options.access_key_id,
            aws_secret_access_key=secret.get_secret_value() if secret is not None else None,
            verify=str(options.ca_file) if options.ca_file is not None else None,
            config=Config(
                connect_timeout=options.connect_timeout_s,
                read_timeout=options.read_timeout_s,
                retries={"mode": "standard", "total_max_attempts": options.attempts},
                max_pool_connections=POOL,
                s3={"addressing_style": "path" if options.path_style else "auto"},
                # newer checksums are unknown to many services; TLS and gzip have their own
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
            ),
        )

    def _place(self) -> str:
        return f"the bucket {self._options.bucket} at {self._options.endpoint_url or 'Amazon S3'}"

    def _words(self, text: str) -> str:
        return self._mask.hide(" ".join(text.split()))[:MAX_WORDS]
