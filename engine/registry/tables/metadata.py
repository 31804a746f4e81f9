"""What all tables share."""

from typing import Any, cast

from sqlalchemy import BigInteger, Integer, MetaData, Table
from sqlmodel import SQLModel

BIG: Any = BigInteger().with_variant(Integer(), "sqlite")
"""Counts that pass 2**31; SQLite's integers have 64 bits anyway, and only plain ones number their rows."""
NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s",
    "pk": "pk_%(table_name)s",
}


class Row(SQLModel):
    """A table with constraints named alike in every database, so that migrations can address them."""

    metadata = MetaData(naming_convention=NAMES)


def core(table: type[Row]) -> Table:
    """A table without its mapping, for statements about many rows."""
    return cast("Table", table.__table__)  # type: ignore[attr-defined] # the mapping makes it
