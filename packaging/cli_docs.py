"""cli_docs.py KIND VERSION help.def OUT: the manual page or a shell's completions, from what --help
says.

KIND is man, bash, zsh or fish.
"""

from __future__ import annotations

import ast
import re
import sys

CHOICES = "|"  # an option's value like a|b is one of these words
FILES = {"FILE", "MODEL2", "DIR", "MODEL", "CALLS"}


def entries(text: str) -> dict[str, list[tuple]]:
    """Macro name -> the arguments of its uses."""
    found: dict[str, list[tuple]] = {}
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    for name, arguments in re.findall(r"^(VERB|OPTION|EXAMPLE|EXITS)\((.*?)\)$", text, re.M | re.S):
        found.setdefault(name, []).append(ast.literal_eval(f"({arguments},)"))
    return found


def options_of(what: dict[str, list[tuple]], verb: str) -> list[tuple[str, str, str]]:
    return [
        (n, v, s) for verbs, n, v, s in what["OPTION"] if verb in verbs.split() or verbs == "all"
    ]


def roff(text: str) -> str:
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text[:1] in ".'" else text


def man(what: dict[str, list[tuple]], version: str) -> str:
    out = [
        f'.TH RUSHLIGHT 1 "" "rushlight {version}" "User Commands"',
        ".SH NAME",
        "rushlight \\- open PyTorch programs and run them, without PyTorch",
        ".SH SYNOPSIS",
    ]
    for name, arguments, _ in what["VERB"]:
        out += [f".B rushlight {name}", roff(arguments) + " [options]", ".br"]
    out += [".SH DESCRIPTION",
            "Opens TorchScript (.pt) and torch.export (.pt2) archives and runs them.",
            "An ARG is a literal ([1, 2.5], \\(aqtext\\(aq, True), a factory (randn(1,3,224,224), "
            "full([2,2], 0.5)),",
            "or a file (@x.npy, @x.safetensors, @x.pt); NAME=ARG passes it by name."]  # fmt: skip
    for name, _, summary in what["VERB"]:
        own = [o for o in what["OPTION"] if name in o[0].split()]
        out += [f'.SS "{name}"', roff(summary[0].upper() + summary[1:]) + "."]
        for _, option, value, text in own:
            out += [".TP", f".B {roff(option)}" + (f" {roff(value)}" if value else ""), roff(text)]
    out.append(".SH OPTIONS")
    for verbs, option, value, text in what["OPTION"]:
        if verbs == "all":
            out += [".TP", f".B {roff(option)}" + (f" {roff(value)}" if value else ""), roff(text)]
    out.append(".SH EXIT STATUS")
    for code, meaning in what["EXITS"]:
        out += [".TP", f".B {code}", roff(meaning)]
    out.append(".SH EXAMPLES")
    for _, command, meaning in what["EXAMPLE"]:
        out += [".TP", f".B {roff(command)}", roff(meaning)]
    return "\n".join(out) + "\n"


def bash(what: dict[str, list[tuple]], _: str) -> str:
    verbs = [v[0] for v in what["VERB"]]
    cases = "\n".join(
        f'    {v}) options="{" ".join(o[0] for o in options_of(what, v))}" ;;' for v in verbs
    )
    values = {o[1]: o[2] for o in what["OPTION"] if o[2]}
    words = "\n".join(
        f'    {name}) COMPREPLY=($(compgen -W "{value.replace(CHOICES, " ")}" -- "$word")); return '
        f";;"
        for name, value in values.items()
        if CHOICES in value
    )
    files = "|".join(name for name, value in values.items() if value in FILES)
    other = "|".join(
        name for name, value in values.items() if CHOICES not in value and value not in FILES
    )
    return f"""# bash completion of rushlight; generated from its --help
_rushlight()
{{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} options=""
  COMPREPLY=()
  case $before in
{words}
    {files}) COMPREPLY=($(compgen -f -- "$word")); return ;;
    {other}) return ;;
  esac
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "{" ".join(verbs)} --help --version" -- "$word"))
    return
  fi
  case ${{COMP_WORDS[1]}} in
{cases}
  esac
  case $word in
    -*) COMPREPLY=($(compgen -W "$options" -- "$word")) ;;
    @*) COMPREPLY=($(compgen -f -P @ -- "${{word#@}}")) ;;
    *) COMPREPLY=($(compgen -f -- "$word")) ;;
  esac
}}
complete -o filenames -F _rushlight rushlight
"""


def quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def zsh_option(name: str, value: str, text: str) -> str:
    text = text.replace("[", "(").replace("]", ")").replace(":", ",")
    if not value:
        return quoted(f"{name}[{text}]")
    kind = (
        "_files"
        if value in FILES
        else f"({value.replace(CHOICES, ' ')})"
        if CHOICES in value
        else " "
    )
    return quoted(f"{name}=[{text}]:{value.lower().replace(CHOICES, ' or ')}:{kind}")


def zsh(what: dict[str, list[tuple]], _: str) -> str:
    verbs = "\n".join(f"    {quoted(f'{name}:{summary}')}" for name, _, summary in what["VERB"])
    cases = "\n".join(
        f"    {name}) _arguments "
        + " ".join(zsh_option(*o) for o in options_of(what, name))
        + " '*:file:_files' ;;"
        for name, _, _ in what["VERB"]
    )
    return f"""#compdef rushlight
# zsh completion of rushlight; generated from its --help
_rushlight() {{
  local -a verbs
  verbs=(
{verbs}
  )
  if (( CURRENT == 2 )); then
    _describe verb verbs
    return
  fi
  local verb=$words[2]
  shift words
  (( CURRENT-- ))
  case $verb in
{cases}
  esac
}}
_rushlight "$@"
"""


def fish(what: dict[str, list[tuple]], _: str) -> str:
    verbs = " ".join(v[0] for v in what["VERB"])
    lines = ["# fish completion of rushlight; generated from its --help"]
    for name, _, summary in what["VERB"]:
        lines.append(
            f"complete -c rushlight -n 'not __fish_seen_subcommand_from {verbs}' -f -a {name} -d "
            f"{quoted(summary)}"
        )
    for used_by, name, value, summary in what["OPTION"]:
        seen = verbs if used_by == "all" else used_by
        line = (
            f"complete -c rushlight -n '__fish_seen_subcommand_from {seen}' -l {name[2:]} -d "
            f"{quoted(summary)}"
        )
        if value:
            line += " -r" if value in FILES else " -x"
        if CHOICES in value:
            line += f" -a {quoted(value.replace(CHOICES, ' '))}"
        lines.append(line)
    return "\n".join(lines) + "\n"


def main() -> int:
    kind, version, source, out = sys.argv[1:]
    with open(source) as file:
        what = entries(file.read())
    with open(out, "w") as file:
        file.write({"man": man, "bash": bash, "zsh": zsh, "fish": fish}[kind](what, version))
    return 0


if __name__ == "__main__":
    sys.exit(main())
