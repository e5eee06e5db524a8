"""XML from files one did not write: no document types, hence no entities and no entity bombs."""

from pathlib import Path
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from propml.file_errors import reading

__all__ = ["read_xml"]


def read_xml(path: Path) -> Element:
    """The root element of an XML file; tags are given without their namespace prefix.

    A file with a document type is refused: that is where entities are declared, and labels need none.
    """
    builder = TreeBuilder()
    parser = expat.ParserCreate()

    def refuse(*_: object) -> None:
        raise ValueError(
            f"{path} declares a document type or entities, which are refused because they can exhaust the memory; "
            f"remove the <!DOCTYPE …> part"
        )

    parser.StartElementHandler = lambda tag, attributes: builder.start(tag.rpartition(":")[2], attributes)
    parser.EndElementHandler = lambda tag: builder.end(tag.rpartition(":")[2])
    parser.CharacterDataHandler = builder.data
    parser.StartDoctypeDeclHandler = refuse
    with reading(path, "XML file", "it may be truncated: copy it again"):
        parser.Parse(path.read_bytes(), True)
        return builder.close()
