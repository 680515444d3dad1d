"""Where the published files lie and what their bytes must hash to."""

from dataclasses import dataclass
from types import MappingProxyType

PLANETOID_COMMIT = "af6abf468a772cc055bec88c52e4d6f51b7c37e3"
PLANETOID = f"https://raw.githubusercontent.com/kimiyoung/planetoid/{PLANETOID_COMMIT}/data/"
LINQS = "https://linqs-data.soe.ucsc.edu/public/lbc/"
TERROR_COMMIT = "bd80b51d278d5b5b39635da7fde83b9693f57ac4"
TERROR_COPY = (
    f"https://raw.githubusercontent.com/natbolon/terrorist_network_weaknesses/{TERROR_COMMIT}/data/"
)

MAX_DOWNLOAD = 2**26
"""No published file is larger than this: 64 MiB."""


@dataclass(frozen=True)
class Origin:
    """One place to get the files of a data set from.

    Parameters
    ----------
    base_url
        Address that a file's name is added to.
    archive
        Name of a tar archive that holds all files, or ``None`` where each has its own address.
    """

    base_url: str
    archive: str | None = None


@dataclass(frozen=True)
class RawFiles:
    """The files of a data set: the folder they are kept in, their digests, and where they lie."""

    folder: str
    sha256: MappingProxyType[str, str]
    origins: tuple[Origin, ...]


def _planetoid(name: str, digests: str) -> RawFiles:
    parts = ("allx", "ally", "graph", "test.index", "tx", "ty", "x", "y")
    sha256 = {f"ind.{name}.{part}": digest for part, digest in zip(parts, digests.split())}
    return RawFiles("planetoid", MappingProxyType(sha256), (Origin(PLANETOID),))


def _terror(folder: str, sha256: dict[str, str]) -> RawFiles:
    origins = (Origin(LINQS, f"{folder}.tgz"), Origin(f"{TERROR_COPY}{folder}/"))
    return RawFiles(folder, MappingProxyType(sha256), origins)


RAW_FILES = {
    "cora": _planetoid(
        "cora",
        """
        9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543
        2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71
        58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d
        297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875
        b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a
        41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad
        23cfa55d91c6f624233f5eb7b6e3f141f1bd2b2ae39608a63cf5d084bb27baab
        94465c14eb53e04ca262198dcbb2521ee8af60fb3f3d546cd6ca24a511b0e7d1
        """,
    ),
    "citeseer": _planetoid(
        "citeseer",
        """
        2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668
        f704b2d986dde6c2669934de1f3ae5696a6cf9455c0f6b2646a2d135ea0a1c95
        d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7
        2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4
        539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21
        55e5bd1ba1e733a04598753ad1a8d57957f4b8f89e74519f41f4f4938767e4ce
        d20de19150741e555de0ed037195630fc194114ebc7fd72ced62810148aa22f6
        8ba87e515d8e3ee3cf52f6d2c5b86aa73f11ecad825a808455209ec26cd54924
        """,
    ),
    "pubmed": _planetoid(
        "pubmed",
        """
        508e538e2abdccdd54c4d3e9f49d638b4af7107d85845f66ddea5a5152658b7e
        0c37bbe3b5014ec365e9d393cf4791925e5ed94fb194305d74f064a8d7b50f0e
        5b89f0036ca22909471f1e6558eb42fa06e0c730a577bde5b058b40638f81dc9
        b101d421688bbaecbd82e8a18f1e282378d6830f3a37666f28ebc47f844341b5
        4eb5f5d0f30f26497eb0ac6ac9719d09c67e284f1ed0385c93f3ef27a671da3d
        ee2e0d4819d9fbcc403689c3bf2e49face401b605932f093bc58ab6461130fdd
        fbe9cb5c47200d1b7769a26e579be3b7130b556831f9d850e77c4c74f2599b33
        e6c807633307a07ed659249006536a147c7999c797f11a2560752990181b41b3
        """,
    ),
    "terrorattack": _terror(
        "TerrorAttack",
        {
            "terrorist_attack.labels": (
                "8ff2aec5f6906790fed13ae61b23169649958e0b81b60f9d04b444e9abc5e7b0"
            ),
            "terrorist_attack.nodes": (
                "1a51d835ff0d4339cc4b3a3bac3ca3f5c75f2d0870f222734143a40f3230ded2"
            ),
            "terrorist_attack_loc.edges": (
                "ae8004a29765a20081c145e0ea458cd0a41ceedc6df4a8ade9e00b13bcbb5d35"
            ),
            "terrorist_attack_loc_org.edges": (
                "01d798a3da8e0e2ca1b04784db21700dfbe234ee3719206d49b225bb9a7669a4"
            ),
        },
    ),
    "terroristsrel": _terror(
        "TerroristRel",
        {
            "TerroristRel.edges": (
                "502a5b583ca19d38d14cae2039f38eb0e8149042f44a7e15cf25b64608ad6fd0"
            ),
            "TerroristRel.labels": (
                "0166a95178ef37727175f1bb52edb9b883b2359a2f1ebd95de73d4c442405123"
            ),
            "TerroristRel_Colleague.nodes": (
                "1174cc58af45302e947b91951bfa7eb2e5417ad6bf321e0f74dfe15095f947d6"
            ),
            "TerroristRel_Congregate.nodes": (
                "985ff64c2c0a7b288a6c2dabbbc9e9f5e39c520719b1847527997935d3b714e7"
            ),
            "TerroristRel_Contact.nodes": (
                "83809e455207b8137e802c4cf32b59f33b1e6e00ca518e2a7056e898cf431b33"
            ),
            "TerroristRel_Family.nodes": (
                "8f9ecf7549c4c29c7cd32d6680e32074cf4f9fee867812043a92f9c726b79de3"
            ),
        },
    ),
}
