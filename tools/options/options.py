#!/usr/bin/env python3
"""Writes what khop says of options into the Python package and into tables of docs. Those of docs/cli.md have the
words of --help.

    khop options --json | options.py            writes the files
    khop options --json | options.py --check    fails if they are not what this makes
"""
import json
import keyword
import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[2]
TYPES = {"int": "int", "float": "float", "bool": "bool", "size": "Union[int, str]", "duration": "str",
         "list": "Sequence[str]", "fanouts": "Fanouts", "text": "str", "choice": "str", "path": "str",
         "partition": "str", "time": "Any"}
ANY = {"device"}  # a torch.device, too
OTHERWISE = {"fanouts", "seeds", "world_size"}
"""What khop.Loader has in another form: several names, arrays, or a process group."""
OF_A_SERVER = {"hold"}
"""Options of servers that a loader has; the others go through serve_options."""


def type_of(option):
    if option["kind"] == "lists":
        return "Names" if option["choices"] else "Numbers"
    return "Any" if option["key"] in ANY else TYPES[option["kind"]]


def number(text):
    return None if text in ("", None) else float(text) if "." in str(text) or "e" in str(text) else int(text)


def default(option):
    """The default as a value of Python; None where it is no value but a rule, such as half of memory."""
    kind, text = option["kind"], option["default"]
    if kind == "bool":
        return text == "true"
    if text in ("", None) or kind in ("size", "path"):
        return None
    if kind == "fanouts":
        return [int(k) for k in text.split(",")]
    if kind == "lists" and not option["choices"]:
        return number(text)
    if kind in ("int", "float"):
        return number(text) if kind == "int" else float(text)
    return text.split(",") if kind in ("list", "lists") else text


def in_python(text):
    """A text with options as Python spells them."""
    return re.sub(r"--([a-z][a-z-]*)", lambda m: m[1].replace("-", "_"), text)


def said(option):
    """What an option is."""
    text = in_python(option["help"]).strip()
    if option["choices"] and not all(c in option["help"] for c in option["choices"]):
        text += " One of " + ", ".join(option["choices"]) + "."
    return text


def comment(option):
    """What editors show of an option."""
    text = said(option)
    if option["samplers"]:
        text += " For " + ", ".join(option["samplers"]) + "."
    return text if default(option) is None else f"{text} Default: {literal(default(option))}."


def typed(name, base, doc, options):
    lines = [f"class {name}({base}total=False):", f'    """{doc}"""', ""]
    for o in options:
        lines += [f"    {o['key']}: {'Any' if o['key'] in ANY else f'Optional[{type_of(o)}]'}"]
        lines += wrapped('"""' + comment(o) + '"""', "    ")
    return "\n".join(lines) + "\n"


def wrapped(text, indent):
    return textwrap.wrap(text, 120, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)


def literal(value):
    """A value as source code: quotes are double."""
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, (list, tuple)):
        inside = ", ".join(map(literal, value)) + ("," if isinstance(value, tuple) and len(value) == 1 else "")
        return f"({inside})" if isinstance(value, tuple) else f"[{inside}]"
    return repr(value)


def row(o):
    """The line of an option in the table, or lines."""
    values = [literal(default(o))]
    more = {"choices": tuple(o["choices"]), "least": number(o["least"]), "most": number(o["most"]),
            "samplers": tuple(o["samplers"])}
    values += [f"{key}={literal(value)}" for key, value in more.items() if value not in (None, ())]
    help = literal(in_python(o["help"]))
    text = f'    "{o["key"]}": Option({", ".join([values[0], help, *values[1:]])}),'
    if len(text) <= 120:
        return text
    lines = [f'    "{o["key"]}": Option(', f"        {values[0]},"]
    parts = textwrap.wrap(in_python(o["help"]), 100, drop_whitespace=False, break_on_hyphens=False)
    lines += [f"        {literal(part)}" for part in parts[:-1]] + [f"        {literal(parts[-1])},"]
    for value in values[1:]:
        lines += textwrap.wrap(value + ",", 120, initial_indent="        ", subsequent_indent="            ",
                               break_on_hyphens=False)
    return "\n".join([*lines, "    ),"])


def of_package(khop):
    """What the Python package knows of options."""
    of_samplers, others = of_loader(khop)
    of_convert = [o for o in khop["options"] if "convert" in o["doors"] and not keyword.iskeyword(o["key"])]
    return "\n".join([
        typed("SamplerOptions", "TypedDict, ", "Options of samplers beside fanouts.", of_samplers), "",
        typed("LoaderOptions", "SamplerOptions, ", "All options of khop.Loader that are khop's.", others), "",
        typed("ConvertOptions", "TypedDict, ", "Options of khop.write: those of khop convert.", of_convert), "",
        "OPTIONS: dict[str, Option] = {", *map(row, of_samplers + others), "}"])


def of_loader(khop):
    """The options of khop.Loader that are khop's: those of samplers, and the others."""
    options = [o for o in khop["options"] if "serve" in o["doors"] and o["key"] not in OTHERWISE and (
        o["group"] != "server" or o["key"] in OF_A_SERVER)]
    return [o for o in options if o["samplers"]], [o for o in options if not o["samplers"]]


def code(text):
    return f"`{text}`"


USUAL = {"split", "batch_size", "drop_last", "shuffle", "seed", "instance", "remainder", "node_columns", "seed_columns",
         "edge_columns", "edge_pos", "workers", "prefetch", "hold", "residence", "max_memory", "device"}
"""Options that the guide of Python explains."""
ROWS = {"Seeds and batches:": "[order of time](#in-the-order-of-time)",
        "Rows:": "[narrow rows](loader.md#narrow-features), [prepared blocks](loader.md#prepared-blocks)",
        "Seeds that are edges:": "[links](cli.md#seeds-that-are-edges)",
        "Memory and disk:": "[memory and disk](cli.md#memory-and-disk)", "Device:": "[devices](cli.md#device)",
        "": "[a trace](cli.md#khop-trace)"}
"""Groups of serve's flags, as the guide names them; help(khop.Loader) and the manual explain their other options."""


def of_keywords(khop):
    """The tables of khop.Loader's options: those that most programs give, with their meanings, and the names of the
    others, by samplers and by groups."""
    of_samplers, others = of_loader(khop)
    serve = next(c for c in khop["commands"] if c["name"] == "serve")
    group = {f["name"].replace("-", "_"): f["group"] for f in serve["flags"]}
    usual = [["option", "meaning"]]
    for o in sorted(others, key=lambda o: list(group).index(o["key"])):
        if o["key"] in USUAL:
            value = "" if default(o) is None or default(o) is False else f"={literal(default(o))}"
            usual.append([code(o["key"] + value), said(o)])
    names, takers = {o["key"] for o in of_samplers}, {}
    for s in khop["samplers"]:
        own = [o.replace("-", "_") for o in s["options"]]
        takers.setdefault(", ".join(code(o) for o in own if o in names) or "none", []).append(code(s["name"]))
    more = [["for", "options"], *([", ".join(own), options] for options, own in takers.items())]
    for title, shown in ROWS.items():
        more.append([shown, ", ".join(code(o["key"]) for o in others if o["key"] not in USUAL | {"sampler"} and
                                      group[o["key"]] == title)])
    return "\n" + bare(usual) + "\n" + bare(more)


def of_names(khop):
    """The table of the options of samplers whose field in Go has another name."""
    fields = {}
    for s in khop["samplers"]:
        for option, field in zip(s["options"], s["fields"]):
            if re.sub(r"(?<=[a-z])(?=[A-Z])", "-", field.rpartition(".")[2]).lower() != option:
                fields.setdefault(option, {})[code(field)] = True
    rows = [["in Go", "in Python"], *([", ".join(of), code(o.replace("-", "_"))] for o, of in fields.items())]
    return "\n" + bare(rows)


def of_launchers(khop):
    """The names under which launchers give ranks, as Python literals."""
    rows = [f"dict({', '.join(f'{k}={literal(v)}' for k, v in of.items() if v)})," for of in khop["launchers"]]
    lines = [line for row in rows for line in textwrap.wrap(
        row, 120, initial_indent="    ", subsequent_indent="         ", break_on_hyphens=False)]
    return "\n".join(["LAUNCHERS: tuple[Mapping[str, Any], ...] = (", *lines, ")"])


def of_environment(khop):
    """The same as a table."""
    def names(of, *keys):
        return ", ".join(code(of[k]) for k in keys if of[k])
    rows = [["launcher", "rank", "world size", "local rank, how many are here"]]
    for of in khop["launchers"]:
        here = "none but this" if of["alone"] else names(of, "local_rank", "local_size", "here")
        rows.append([of["name"], names(of, "rank"), names(of, "size"), here])
    return "\n" + bare(rows)


def put(path, text, name, made):
    """The text of a file with what is made between the marks of a name."""
    mark = r"(^[^\n]*\b{} make options: " + name + r"\b[^\n]*\n)"
    parts = re.split(mark.format("made by") + "(.*?)" + mark.format("end of"), text, flags=re.M | re.S)
    if len(parts) != 5:
        sys.exit(f"{path} has not one place for {name}, between marks")
    return "".join([parts[0], parts[1], made + "\n", parts[3], parts[4]])


LOADS = ("bench", "plan", "sample", "serve")
"""Commands that load batches: they share most options, which one section of the manual has."""


def record(flag):
    """What makes two flags of commands the same."""
    return flag["name"], flag["value"], flag["help"]


def common(commands):
    """The flags that commands share: those of two others than for loading, with the commands, and those of loading,
    with their headings."""
    shared, loading = {}, {}
    for c in commands:
        for f in c["flags"]:
            if c["name"] in LOADS and f["group"]:
                loading.setdefault(record(f), []).append(f["group"])
            else:
                shared.setdefault(record(f), []).append(c["name"])
    shared = {flag: names for flag, names in shared.items() if len(names) >= 2}
    return shared, {flag: groups[0] for flag, groups in loading.items() if len(groups) >= 3 and not (
        flag in shared and groups[0] == "Memory and disk:")}


def bare(rows):
    """A table of Markdown whose lines have no bars at their ends."""
    lines = [" | ".join(cell.replace("|", "\\|") for cell in row).strip() for row in rows]
    return "\n".join([lines[0], "|".join(["---"] * len(rows[0])), *lines[1:], ""])


def flags_of(flags, *more):
    """A table of flags, once each, in the words of --help."""
    rows = [["option", "meaning", *(title for title, _ in more)]]
    for name, value, text in dict.fromkeys(map(record, flags)):
        cell = f"--{name}={value}" if value else f"--{name}"
        rows.append([code(cell), text, *(cells(name, value, text) for _, cells in more)])
    return bare(rows)


def of_commands(khop):
    """The tables of the manual, by the sections that they stand in."""
    shared, loading = common(khop["commands"])
    every = [f for c in khop["commands"] for f in c["flags"]]
    of_loads = [f for c in khop["commands"] if c["name"] in LOADS for f in c["flags"]]

    def takers(*flag):
        names = shared[flag]
        return ", ".join(names) if len(names) < 7 else "most"

    made = {"Shared options": flags_of((f for f in every if record(f) in shared), ("commands", takers))}
    for group in dict.fromkeys(loading.values()):
        made[group.rstrip(":")] = flags_of(f for f in of_loads if loading.get(record(f)) == group)
    for c in khop["commands"]:
        own = [f for f in c["flags"] if record(f) not in shared and not (
            record(f) in loading and c["name"] in LOADS)]
        if own:
            made["khop " + c["name"].split()[0]] = flags_of(own)
    return made


MADE = re.compile(r"^option \| meaning.*\n(?:.* \| .*\n|---.*\n)+", re.M)


def of_manual(path, text, khop):
    """The manual, with the tables of options that its sections have."""
    made = of_commands(khop)
    parts = re.split(r"^(?=##+ )", text, flags=re.M)
    for i, part in enumerate(parts):
        title = part.partition("\n")[0].lstrip("# ")
        name = next((n for n in made if re.match(re.escape(n) + r"(?= [A-Z[]|$)", title)), None)
        places = len(MADE.findall(part))
        if places != bool(name):
            sys.exit(f"{path}: {title}: {places} tables of options, and there is {'one' if name else 'none'}")
        if name:
            parts[i] = MADE.sub(lambda _, table=made.pop(name): table, part)
    if made:
        sys.exit(f"{path} has no section {', '.join(made)}")
    return "".join(parts)


def files(khop):
    """What each file shall be, by its path."""
    made = {
        "integrations/python/src/khop/_config/option_table.py": {"options": of_package(khop)},
        "docs/python.md": {"options": of_keywords(khop)},
        "docs/sampling.md": {"names": of_names(khop)},
        "integrations/python/src/khop/place.py": {"launchers": of_launchers(khop)},
        "docs/machines.md": {"launchers": of_environment(khop)},
        "docs/cli.md": {},
    }
    for path, places in made.items():
        text = before = (ROOT / path).read_text()
        for name, part in places.items():
            text = put(path, text, name, part)
        yield path, before, of_manual(path, text, khop) if path == "docs/cli.md" else text


def main(arguments):
    for path, before, text in files(json.load(sys.stdin)):
        if "--check" not in arguments:
            (ROOT / path).write_text(text)
        elif text != before:
            sys.exit(f"{path} is not what khop options says: make options")


if __name__ == "__main__":
    main(sys.argv[1:])
