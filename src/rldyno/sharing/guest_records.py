"""What records say of guests, without it: variables, keys among the arguments, paths up to their end.

The id of a trial is a hash of these, too: a trial whose guest changes gets a new one.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rldyno.errors import Problem
from rldyno.records.files import Json
from rldyno.records.trial_id import trial_id
from rldyno.study.recorded import check_recorded
from rldyno.study.script_tables import scripts_in
from rldyno.study.scripts import SCRIPT
from rldyno.study.secrets import MASK, PATH, secret_arguments
from rldyno.toml.write import toml_text
from rldyno_rig.trial_file import TrialFile

Replace = Callable[[str], str]
"""Takes names and paths out of a text."""

_PATH_TO_THE_END = re.compile(r"(?<![\w/.}~])(?:~[\w.-]*)?/.*", re.DOTALL)
"""It may have blanks."""


def masked_trial(values: Json, replace: Replace) -> Json:
    """trial.json. Names of variables stay: they say how the script was started."""
    guest = values.get("guest")
    if not isinstance(guest, Mapping):
        return values
    _check_contestant(str(values.get("contestant")), replace)
    own = guest.get("variables") or {}
    masked = {
        **guest,
        "script": PATH,
        "arguments": _masked_arguments(list(guest.get("arguments") or ()), replace),
        "variables": dict.fromkeys(own, MASK),
    }
    variables = values.get("variables") or {}
    return {
        **values,
        "guest": masked,
        "variables": {name: MASK if name in own else value for name, value in variables.items()},
    }


def new_id(before: Json, masked: Json) -> str | None:
    """Of a trial whose masked guest makes it another one; None where the id stays."""
    old, new = (TrialFile.from_json({**before, "guest": each.get("guest")}) for each in (before, masked))
    if old.guest is None or new.guest is None or old.guest.computation == new.guest.computation:
        return None
    return trial_id(new)


def masked_manifest(values: Json, replace: Replace) -> Json:
    text = str(values.get("study_text") or "")
    without = masked_study(text, replace)
    if without != text:
        values = {**values, "study_text": without, "study_sha256": _sha256(without)}
    amended = [_masked_amendment(change, replace) for change in values.get("amended") or ()]
    return {**values, "amended": amended} if amended else values


def masked_study(text: str, replace: Replace) -> str:
    """The text of a study. One in which the table of a script changes loses its comments."""
    scripts = scripts_in(text)
    masked = {name: _masked_table(table, replace) for name, table in scripts.items()}
    if masked == scripts:
        return text
    table = tomllib.loads(text)
    return toml_text({**table, SCRIPT: {**table[SCRIPT], **masked}})


def _check_contestant(contestant: str, replace: Replace) -> None:
    if replace(contestant) != contestant:
        raise Problem(
            f"{contestant} cannot be made anonymous: its name holds a path, or the name of a user or machine",
            fix="rename the script, name it by a path from the folder of the study, and run the study again",
            code=1,
        )


def _masked_amendment(change: Json, replace: Replace) -> Json:
    """Lines of scripts are `script.x.variables: … → …`."""
    lines = [
        f"{key}: {MASK}" if key.startswith(f"{SCRIPT}.") else line
        for line in map(str, change.get("changes") or ())
        for key in [line.partition(": ")[0]]
    ]
    return {**change, "changes": lines, "text_before": masked_study(change.get("text_before") or "", replace)}


def _masked_table(table: Json, replace: Replace) -> Json:
    masked = dict(table)
    if isinstance(variables := table.get("variables"), Mapping):
        masked["variables"] = dict.fromkeys(variables, MASK)
    if isinstance(interpreter := table.get("interpreter"), str) and "/" in interpreter:
        masked["interpreter"] = PATH
    if "arguments" in table:
        masked["arguments"] = _masked_arguments(table["arguments"], replace)
    if isinstance(more := table.get("algorithm_arguments"), Mapping):
        masked["algorithm_arguments"] = {key: _masked_arguments(one, replace) for key, one in more.items()}
    return masked


def _masked_arguments(value: Any, replace: Replace) -> Any:
    """One argument, or several."""
    if isinstance(value, str):
        return _masked_arguments([value], replace)[0]
    texts = list(map(str, value))
    for place, _, secret in secret_arguments(texts):
        texts[place] = texts[place].removesuffix(secret) + MASK
    return [replace(_PATH_TO_THE_END.sub(PATH, text)) for text in texts]


def _sha256(text: str) -> str:
    """Empty where this version cannot read the study."""
    try:
        return check_recorded(Path(), text).sha256
    except Problem:
        return ""
