"""The key `source`: where a node gets everything from. Pure."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from b200kit.inventory.keys.types import BaseUrl, Fingerprint, Keys, Text

T = TypeVar("T")

INTERNET: Literal["internet"] = "internet"


class Mirror(Keys):
    """A site's own mirror with everything that its nodes install (`b200 mirror build`)."""

    url: BaseUrl = Field(alias="mirror")
    """base URL"""
    key: Text
    """armored public key that its packages are signed by, a path on the controller"""
    fingerprint: Fingerprint
    """fingerprint that key must have"""

    def below(self, path: str) -> str:
        """The URL of a part of the mirror."""
        return f"{self.url.rstrip('/')}/{path}"


class _OrInternet:
    """The word "internet" or a mapping, whose problems are named by its own keys."""

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        mapping = handler.generate_schema(get_args(source)[0])
        return core_schema.no_info_wrap_validator_function(
            lambda raw, inner: raw if raw == INTERNET else inner(raw), mapping
        )

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {**handler(schema), "expected": f'"{INTERNET}" or a mapping'}


Source = Annotated[Mirror | Literal["internet"], _OrInternet()]
