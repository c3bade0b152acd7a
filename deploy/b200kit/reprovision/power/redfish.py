"""Power by Redfish, with sushy (OpenStack's client library; the one that Ironic speaks with).

Trusted is the operating system's list of authorities, the one the inventory names, or a certificate
by its fingerprint; there is no way to trust just anything. What the environment says of proxies,
bundles and .netrc does not count: a controller lies on a network of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import requests
import sushy  # type: ignore[import-untyped]
from requests.adapters import HTTPAdapter
from sushy import auth, connector, exceptions

from b200kit.inventory.keys.reprovision import Bmc
from b200kit.inventory.secrets import Secret
from b200kit.records import machines
from b200kit.records.machines import MachineIdentity
from b200kit.reprovision.actions import ActionRefused
from b200kit.reprovision.power import OFF, ON

_CONNECT_S, _ANSWER_S = 10, 60
_WORDS = {"On": ON, "Off": OFF}
T = TypeVar("T")

# What it finds wrong is reported once, by us; whoever sets up logging for it still gets its words.
logging.getLogger("sushy").addHandler(logging.NullHandler())


class Controller:
    """The system that the inventory names, or the only one there is."""

    def __init__(self, bmc: Bmc, password: Secret) -> None:
        self._bmc, self._password = bmc, password

    def machine(self) -> MachineIdentity:
        """See b200kit.reprovision.power.Power. Its UUID is in the order that the node's operating
        system shows (DSP0268, ComputerSystem.UUID); not every firmware heeds that.
        """
        return self._of_system(lambda system: machines.machine(system.uuid, system.serial_number))

    def state(self) -> str:
        """See b200kit.reprovision.power.Power."""
        return self._of_system(_state)

    def shut_down(self) -> None:
        """See b200kit.reprovision.power.Power."""
        self._reset(sushy.ResetType.GRACEFUL_SHUTDOWN)

    def cut(self) -> None:
        """See b200kit.reprovision.power.Power."""
        self._reset(sushy.ResetType.FORCE_OFF)

    def switch_on(self) -> None:
        """See b200kit.reprovision.power.Power."""
        self._reset(sushy.ResetType.ON)

    def _reset(self, kind: Any) -> None:
        def request(system: Any) -> None:
            offered = _offered(system)
            if kind not in offered:
                known = ", ".join(sorted(each.value for each in offered)) or "nothing"
                raise ActionRefused(
                    f"its controller offers no reset of type {kind.value}; it offers {known}"
                )
            system.reset_system(kind)

        self._of_system(request)

    def _of_system(self, request: Callable[[Any], T]) -> T:
        """*request* on the system as it is now; our session is closed again, however it ends."""
        with self._told():
            root = sushy.Sushy(
                self._bmc.address,
                auth=auth.SessionOrBasicAuth(self._bmc.user, self._password.reveal().decode()),
                connector=_connector(self._bmc),
            )
            try:
                return request(self._system(root))
            finally:
                root._auth.close()

    def _system(self, root: Any) -> Any:
        paths = [str(path) for path in root.get_system_collection().members_identities]
        name = self._bmc.system
        found = [path for path in paths if name in (None, path, path.rpartition("/")[2])]
        if len(found) == 1:
            return root.get_system(found[0])
        names = ", ".join(path.rpartition("/")[2] for path in paths) or "none"
        if name is None:
            raise ActionRefused(f"its controller has several systems ({names}): set bmc.system")
        raise ActionRefused(f"its controller has no system {name}; it has {names}")

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What sushy says went wrong, in one line of ours."""
        try:
            yield
        except exceptions.SushyError as error:
            raise ActionRefused(_line(error, self._bmc)) from None
        except ValueError:
            raise ActionRefused(f"what {self._bmc.address} answers is not Redfish") from None


def _state(system: Any) -> str:
    raw = str(system.json.get("PowerState"))
    return _WORDS.get(raw, raw)


def _offered(system: Any) -> set[Any]:
    return set(system.get_allowed_reset_system_values())


def _connector(bmc: Bmc) -> Any:
    """sushy's connection, held to what the inventory trusts."""
    made = connector.Connector(
        bmc.address,
        # A certificate known by its fingerprint needs no authority: _Pinned compares it.
        verify=False if bmc.fingerprint else bmc.ca_file or True,
        # It retries by itself, also what may be done only once; our own polling is enough.
        server_side_retries=1,
        server_side_retries_delay=1,
        default_request_timeout=_ANSWER_S,
        connect_timeout=_CONNECT_S,
    )
    made._session.trust_env = False
    if bmc.fingerprint:
        made._session.mount("https://", _Pinned(bmc.fingerprint))
    return made


class _Pinned(HTTPAdapter):
    """Connections to a server that shows just this certificate."""

    def __init__(self, fingerprint: str) -> None:
        self._fingerprint = fingerprint
        super().__init__()

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """urllib3 compares the fingerprint before a byte of ours is sent."""
        super().init_poolmanager(*args, assert_fingerprint=self._fingerprint, **kwargs)


def _line(error: exceptions.SushyError, bmc: Bmc) -> str:
    where = f"its controller {bmc.address}"
    if isinstance(error, exceptions.AccessError):
        return f"{where} refuses user {bmc.user}: look at bmc.user and bmc.password"
    if isinstance(error.__context__, requests.exceptions.SSLError):
        return _distrust(str(error), where, bmc)
    if isinstance(error, exceptions.ConnectionError):
        return f"{where} does not answer: {_why(error.__context__)}; look at its network and power"
    if isinstance(error, exceptions.HTTPError):
        detail = str(error.detail or "no reason given").splitlines()[0]
        return f"{where} answers {error.status_code}: {detail}"
    return f"{where}: {str(error).splitlines()[0]}"


def _distrust(text: str, where: str, bmc: Bmc) -> str:
    if "ingerprint" in text:
        return f"{where} shows another certificate than the one of bmc.fingerprint: not trusted"
    if bmc.ca_file:
        return f"{where} shows a certificate that {bmc.ca_file} does not vouch for: not trusted"
    return (
        f"{where} shows a certificate that no authority of this machine vouches for: "
        f"set bmc.ca_file or bmc.fingerprint"
    )


def _why(error: BaseException | None) -> str:
    """The innermost cause in the operating system's words."""
    text = str(error)
    known = {
        "refused": "connection refused",
        "timed out": "no answer in time",
        "No route": "no route to it",
        "unreachable": "its network is unreachable",
        "resolve": "its name is not known",
        "Name or service": "its name is not known",
    }
    return next((words for sign, words in known.items() if sign in text), type(error).__name__)
