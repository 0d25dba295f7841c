"""Everything that can be typed, as rows: verbs, their options and arguments. Each surface builds its parser from here.

A row's function lives in ``commands.<module>`` and takes a ``Context`` and its options by name.
"""

from __future__ import annotations

from typing import Literal

from ..core.value import Value

Kind = Literal["text", "flag", "switch", "integer", "seconds", "money", "pair", "choice"]
Completes = Literal[
    "",
    "references",
    "routes",
    "providers",
    "credentials",
    "conversations",
    "entries",
    "options",
    "profiles",
    "vendors",
    "shells",
    "selections",
    "files",
    "verbs",
]


class Option(Value):
    """``flags`` as typed, the long one last. A ``switch`` has two long flags, for and against, perhaps more against;
    unset it is ``None``. A ``pair`` takes two words."""

    flags: tuple[str, ...]
    help: str
    kind: Kind = "text"
    metavar: str = ""
    many: bool = False
    choices: tuple[str, ...] = ()
    default: str | None = None
    completes: Completes = ""

    @property
    def name(self) -> str:
        long = [flag for flag in self.flags if flag.startswith("--")]
        return (long[0] if self.kind == "switch" else long[-1]).lstrip("-").replace("-", "_")


class Argument(Value):
    name: str
    help: str = ""
    many: bool = False
    required: bool = True
    kind: Literal["text", "integer"] = "text"
    completes: Completes = ""


class Verb(Value):
    """``path`` are the words that name it; ``streams`` marks those whose surface shows the answer as it comes."""

    path: tuple[str, ...]
    help: str
    module: str
    function: str
    options: tuple[Option, ...] = ()
    arguments: tuple[Argument, ...] = ()
    examples: tuple[str, ...] = ()
    streams: bool = False

    @property
    def name(self) -> str:
        return " ".join(self.path)


class Group(Value):
    """Verbs under one word; called bare it runs ``default``."""

    name: str
    help: str
    default: str


JSON = Option(flags=("--json",), help="Print the data as JSON.", kind="flag")
MODEL = Option(
    flags=("-m", "--model"),
    help="Route, alias, synthetic/model or provider/model.",
    metavar="ID",
    completes="references",
)

JUNIT = Option(flags=("--junit",), help="Write the verdicts there, as JUnit XML.", metavar="FILE", completes="files")

SELECTION = Option(
    flags=("--selection",),
    help="Who is next: ordered, round-robin, weighted, smooth, or a registered name.",
    metavar="NAME",
    completes="selections",
)

GLOBAL = (
    Option(flags=("--config",), help="Use this config file.", metavar="FILE", completes="files"),
    Option(
        flags=("--profile",),
        help="Lay profiles/NAME.toml over the config; 'demo' needs no file.",
        metavar="NAME",
        completes="profiles",
    ),
    Option(
        flags=("--patch",),
        help="Lay this file over it all; may be repeated.",
        metavar="FILE",
        many=True,
        completes="files",
    ),
    Option(flags=("--debug",), help="Show tracebacks.", kind="flag"),
)

GROUPS = (
    Group(name="models", help="What can be asked.", default="list"),
    Group(name="routes", help="Your virtual model ids.", default="list"),
    Group(name="providers", help="Vendor accounts, and synthetic providers over them.", default="list"),
    Group(name="aliases", help="Short names for what can be asked.", default="list"),
    Group(name="keys", help="Credentials: where each is, whether it works.", default="list"),
    Group(name="health", help="Who sleeps, why, and for how long.", default="list"),
    Group(name="budget", help="What is spent, reserved and left of each budget.", default="list"),
    Group(name="logs", help="What was asked and answered.", default="list"),
    Group(name="config", help="The config file.", default="show"),
    Group(name="smoke", help="Does this installation work; does a profile answer.", default="local"),
)

ASK = Verb(
    path=("ask",),
    help="Ask one question. Piped text comes before the words of the command.",
    module="ask",
    function="question",
    streams=True,
    arguments=(Argument(name="prompt", help="The question; '-' stands for stdin.", many=True, required=False),),
    options=(
        MODEL,
        Option(
            flags=("-q", "--query"),
            help="Choose the model whose name contains this text; may be repeated.",
            metavar="TEXT",
            many=True,
        ),
        Option(flags=("-s", "--system"), help="System prompt.", metavar="TEXT"),
        Option(
            flags=("--sf",), help="System prompt from a file, a URL or stdin ('-').", metavar="PATH", completes="files"
        ),
        Option(
            flags=("-f", "--fragment"),
            help="A file, a URL or stdin ('-') whose text comes before the prompt.",
            metavar="PATH",
            many=True,
            completes="files",
        ),
        Option(
            flags=("-a", "--attachment"),
            help="An image or PDF: a file, a URL or stdin ('-').",
            metavar="PATH",
            many=True,
            completes="files",
        ),
        Option(
            flags=("--at",),
            help="An attachment with its media type, such as image/png.",
            kind="pair",
            metavar="PATH TYPE",
            many=True,
            completes="files",
        ),
        Option(
            flags=("-o", "--option"),
            help="Model option.",
            kind="pair",
            metavar="KEY VALUE",
            many=True,
            completes="options",
        ),
        Option(
            flags=("--schema",),
            help="Ask for JSON of this form: a JSON Schema, its file, or a line like 'name, age int'.",
            metavar="SCHEMA",
            completes="files",
        ),
        Option(
            flags=("--schema-multi",),
            help="As --schema, for a list of such items.",
            metavar="SCHEMA",
            completes="files",
        ),
        Option(flags=("-x", "--extract"), help="Print the first fenced block only.", kind="flag"),
        Option(flags=("--xl", "--extract-last"), help="Print the last fenced block only.", kind="flag"),
        Option(
            flags=("-c", "--continue"),
            help="Continue this terminal's last conversation, else this directory's.",
            kind="flag",
        ),
        Option(flags=("--cid",), help="Continue this conversation.", metavar="ID", completes="conversations"),
        Option(
            flags=("--log", "--no-log", "-n"),
            help="Keep question and answer in the conversation log, or do not (default: as configured).",
            kind="switch",
        ),
        Option(
            flags=("--stream", "--no-stream"),
            help="Show the answer as it comes, or hold it back until it is whole (default: live on a terminal).",
            kind="switch",
        ),
        Option(flags=("--json",), help="One JSON object: answer, attempts, decisions.", kind="flag"),
        Option(flags=("--jsonl",), help="One JSON event a line, as it happens.", kind="flag"),
        Option(
            flags=("--render",),
            help="Show Markdown rendered, or its source (auto: rendered on a terminal).",
            kind="choice",
            choices=("auto", "always", "never"),
            default="auto",
        ),
        Option(
            flags=("--color",),
            help="Colours (auto: on a terminal, unless NO_COLOR is set).",
            kind="choice",
            choices=("auto", "always", "never"),
            default="auto",
        ),
        Option(flags=("-u", "--usage"), help="Say on stderr who served, time, tokens, money.", kind="flag"),
        Option(flags=("--explain",), help="Say on stderr why each target is chosen.", kind="flag"),
        Option(flags=("--dry-run",), help="Show who would be asked; ask nobody.", kind="flag"),
        Option(flags=("--timeout",), help="Stop after this long (30, 30s, 2m).", kind="seconds", metavar="TIME"),
        Option(
            flags=("--max-cost",),
            help="Refuse a call that is expected to cost more than this (US dollars).",
            kind="money",
            metavar="MONEY",
        ),
        Option(flags=("--no-failover",), help="Try the first that is ready, and nobody else.", kind="flag"),
        Option(flags=("--only",), help="Only targets of this provider.", metavar="PROVIDER", completes="providers"),
        Option(
            flags=("--key",),
            help="Use this credential: its name, never the key itself.",
            metavar="NAME",
            completes="credentials",
        ),
        Option(flags=("--session",), help="Share stickiness with other calls.", metavar="ID"),
        Option(flags=("--edit",), help="Write the prompt in your editor.", kind="flag"),
        Option(flags=("-R", "--hide-reasoning"), help="Do not show the model's reasoning.", kind="flag"),
        Option(flags=("--quiet",), help="No notices on stderr.", kind="flag"),
        Option(flags=("--no-stdin",), help="Do not read standard input.", kind="flag"),
        Option(flags=("-v", "--verbose"), help="Say on stderr how each attempt went.", kind="flag"),
    ),
    examples=(
        "routekit ask 'Ten names for a cheesecake'",
        "git diff | routekit ask -m plan -s 'Describe these changes' -u",
        "routekit ask -a chart.png -a paper.pdf 'What disagrees?'",
        "routekit ask -c 'And in one sentence?'",
        "routekit ask --schema 'name, age int' 'invent a dog' | jq .name",
        "routekit ask -x 'A shell loop over all PNG files' > loop.sh",
        "routekit ask -m plan --dry-run",
    ),
)

#: options of ``ask`` that hold for a whole conversation
TALKING = frozenset(
    "model query system fragment attachment option continue cid log stream render color usage timeout max_cost "
    "no_failover only key hide_reasoning verbose".split()
)

CHAT = Verb(
    path=("chat",),
    help="Talk: a prompt with history, completion and /commands. Ctrl-C stops an answer, Ctrl-D leaves.",
    module="chat",
    function="talk",
    streams=True,
    options=(
        *(row for row in ASK.options if row.name in TALKING),
        Option(flags=("--no-history",), help="Neither read nor write the history file.", kind="flag"),
    ),
    examples=("routekit chat", "routekit chat -m plan -f notes.md", "routekit chat -c", "routekit --profile demo chat"),
)

VERBS: tuple[Verb, ...] = (
    ASK,
    CHAT,
    Verb(
        path=("init",),
        help="First run: choose a vendor, store a key, write the config, ask a first question.",
        module="init",
        function="init",
        options=(
            Option(flags=("--vendor",), help="The vendor, by preset name.", metavar="NAME", completes="vendors"),
            Option(flags=("--base-url",), help="The address, where it is not the vendor's own.", metavar="URL"),
            Option(flags=("--model",), help="The model to start with.", metavar="MODEL"),
            Option(
                flags=("--key",),
                help="Where the key is: keyring, env:NAME, cmd:COMMAND, file:PATH. Never the key itself.",
                metavar="REF",
            ),
            Option(
                flags=("--from",),
                help="Take over what another program has: 'llm', or the file of a LiteLLM proxy.",
                metavar="SOURCE",
                completes="files",
            ),
            Option(
                flags=("--store",),
                help="Where keys go: the OS keyring, or plain-text files (0600).",
                kind="choice",
                choices=("keyring", "file"),
                default="keyring",
            ),
            Option(flags=("--no-question",), help="Do not ask a first question.", kind="flag"),
            Option(
                flags=("--no-log",), help="Let the config say that questions and answers are not kept.", kind="flag"
            ),
        ),
        examples=(
            "routekit init",
            "routekit init --vendor openai --key env:OPENAI_API_KEY",
            "routekit init --vendor ollama --model llama3.2 --no-question",
            "routekit init --from llm",
            "routekit init --from litellm.yaml",
        ),
    ),
    Verb(
        path=("models", "list"),
        help="References that can be asked for.",
        module="models",
        function="listing",
        options=(
            Option(flags=("-q", "--query"), help="Only names that contain this text.", metavar="TEXT", many=True),
            Option(flags=("--routes",), help="Routes and aliases only.", kind="flag"),
            Option(flags=("--concrete",), help="provider/model only.", kind="flag"),
            Option(flags=("--names",), help="Bare names, one a line.", kind="flag"),
            JSON,
        ),
        examples=("routekit models list -q terra", "routekit models list --routes", "routekit models list --names"),
    ),
    Verb(
        path=("models", "refresh"),
        help="Fetch what the vendors (or one) offer now, with windows and prices.",
        module="refresh",
        function="refresh",
        arguments=(Argument(name="provider", required=False, completes="providers"),),
        options=(JSON,),
        examples=("routekit models refresh", "routekit models refresh openai"),
    ),
    Verb(
        path=("routes", "list"),
        help="All routes, with selection and targets.",
        module="routes",
        function="listing",
        options=(JSON,),
    ),
    Verb(
        path=("routes", "show"),
        help="One route as the tree it expands to.",
        module="routes",
        function="show",
        arguments=(Argument(name="id", completes="references"),),
        options=(JSON,),
        examples=("routekit routes show plan",),
    ),
    Verb(
        path=("routes", "preview"),
        help="Who would be tried now, and why not the others. Nothing moves.",
        module="routes",
        function="preview",
        arguments=(Argument(name="id", required=False, completes="references"),),
        options=(JSON,),
        examples=("routekit routes preview plan",),
    ),
    Verb(
        path=("routes", "add"),
        help="A new route, or more targets at the end of one.",
        module="routes",
        function="add",
        arguments=(
            Argument(name="id", completes="routes"),
            Argument(name="targets", help="References, best first.", many=True, completes="references"),
        ),
        options=(SELECTION, JSON),
        examples=(
            "routekit routes add plan openai/gpt-6.1-terra anthropic/claude-opus-5",
            "routekit routes add spread relay-a/m relay-b/m --selection round-robin",
        ),
    ),
    Verb(
        path=("routes", "rm"),
        help="Remove a route, or one target of it.",
        module="routes",
        function="remove",
        arguments=(Argument(name="id", completes="routes"), Argument(name="target", required=False)),
        options=(JSON,),
        examples=("routekit routes rm plan", "routekit routes rm plan anthropic/claude-opus-5"),
    ),
    Verb(
        path=("routes", "move"),
        help="Move a target to another place of its route, counted from 1.",
        module="routes",
        function="move",
        arguments=(
            Argument(name="id", completes="routes"),
            Argument(name="target"),
            Argument(name="position", kind="integer"),
        ),
        options=(JSON,),
        examples=("routekit routes move plan anthropic/claude-opus-5 1",),
    ),
    Verb(
        path=("routes", "set"),
        help="Set a key of a route, or (as TARGET.KEY) of one of its targets.",
        module="routes",
        function="change",
        arguments=(Argument(name="id", completes="routes"), Argument(name="key"), Argument(name="value")),
        options=(JSON,),
        examples=(
            "routekit routes set plan selection smooth",
            "routekit routes set plan openai/gpt-6.1-terra.weight 3",
            "routekit routes set plan openai/gpt-6.1-terra.enabled false",
        ),
    ),
    Verb(
        path=("providers", "list"),
        help="All providers and synthetic providers.",
        module="providers",
        function="listing",
        options=(JSON,),
        examples=("routekit providers list",),
    ),
    Verb(
        path=("providers", "show"),
        help="One provider: address, key, models, members.",
        module="providers",
        function="show",
        arguments=(Argument(name="id", completes="providers"),),
        options=(JSON,),
        examples=("routekit providers show openai",),
    ),
    Verb(
        path=("providers", "test"),
        help="Ask a provider one tiny question and say what came back. Exit code of the failure.",
        module="providers",
        function="try_out",
        arguments=(Argument(name="id", completes="providers"),),
        options=(
            Option(flags=("-m", "--model"), help="The model to ask (default: one it has).", metavar="MODEL"),
            JSON,
        ),
        examples=("routekit providers test openai", "routekit providers test relay-a --model opus-5-fast"),
    ),
    Verb(
        path=("providers", "add"),
        help="A vendor account, or a synthetic provider over several (or more members for one).",
        module="providers",
        function="add",
        arguments=(Argument(name="id", completes="providers"),),
        options=(
            Option(
                flags=("--preset",),
                help="The vendor, by name (default: ID, where it is one).",
                metavar="NAME",
                completes="vendors",
            ),
            Option(
                flags=("--api",),
                help="What it speaks, where it is no known vendor.",
                kind="choice",
                choices=("openai-chat", "openai-responses", "anthropic-messages"),
            ),
            Option(flags=("--base-url",), help="Its address.", metavar="URL"),
            Option(
                flags=("--key",),
                help="Where the key is: keyring, env:NAME, cmd:COMMAND, file:PATH. Never the key itself.",
                metavar="REF",
            ),
            Option(flags=("--members",), help="For a synthetic provider: its members, best first.", metavar="A,B"),
            SELECTION,
            JSON,
        ),
        examples=(
            "routekit providers add work --preset openai --key env:WORK_KEY",
            "routekit providers add relay --api openai-chat --base-url https://relay.example/v1",
            "routekit providers add openai-plan --members work,openai --selection round-robin",
        ),
    ),
    Verb(
        path=("providers", "rm"),
        help="Remove a provider, or one member of a synthetic one.",
        module="providers",
        function="remove",
        arguments=(Argument(name="id", completes="providers"), Argument(name="member", required=False)),
        options=(JSON,),
        examples=("routekit providers rm relay", "routekit providers rm openai-plan work"),
    ),
    Verb(
        path=("providers", "move"),
        help="Move a member to another place of its synthetic provider, counted from 1.",
        module="providers",
        function="move",
        arguments=(
            Argument(name="id", completes="providers"),
            Argument(name="member"),
            Argument(name="position", kind="integer"),
        ),
        options=(JSON,),
        examples=("routekit providers move openai-plan work 1",),
    ),
    Verb(
        path=("providers", "set"),
        help="Set a key of a provider, or (as MEMBER.KEY) of a synthetic one's member.",
        module="providers",
        function="change",
        arguments=(Argument(name="id", completes="providers"), Argument(name="key"), Argument(name="value")),
        options=(JSON,),
        examples=(
            "routekit providers set openai key env:OPENAI_API_KEY",
            "routekit providers set openai-plan work.weight 5",
            "routekit providers set openai-plan work.enabled false",
        ),
    ),
    Verb(
        path=("aliases", "list"),
        help="All aliases, and what each stands for.",
        module="aliases",
        function="listing",
        options=(JSON,),
    ),
    Verb(
        path=("aliases", "set"),
        help="Let a short name stand for a reference.",
        module="aliases",
        function="store",
        arguments=(Argument(name="name"), Argument(name="reference", completes="references")),
        options=(JSON,),
        examples=("routekit aliases set q deepseek/deepseek-v4-flash",),
    ),
    Verb(
        path=("aliases", "rm"),
        help="Forget a short name.",
        module="aliases",
        function="remove",
        arguments=(Argument(name="name"),),
        options=(JSON,),
        examples=("routekit aliases rm q",),
    ),
    Verb(
        path=("keys", "list"),
        help="Every key: where it is, whether it was there when last seen, its last four characters.",
        module="keys",
        function="listing",
        options=(JSON,),
        examples=("routekit keys list", "routekit keys list --json"),
    ),
    Verb(
        path=("keys", "set"),
        help="Store the key of a provider, or of a keyring entry the config names. It is typed hidden or piped in.",
        module="keys",
        function="store",
        arguments=(Argument(name="id", completes="credentials"),),
        options=(
            Option(
                flags=("--store",),
                help="Where: the OS keyring, or a plain-text file (0600).",
                kind="choice",
                choices=("keyring", "file"),
                default="keyring",
            ),
        ),
        examples=(
            "routekit keys set openai",
            "pass show openai | routekit keys set openai",
            "routekit keys set work --store file",
        ),
    ),
    Verb(
        path=("keys", "rm"),
        help="Forget a stored key.",
        module="keys",
        function="remove",
        arguments=(Argument(name="id", completes="credentials"),),
        examples=("routekit keys rm openai",),
    ),
    Verb(
        path=("keys", "check"),
        help="Read each key (or one) from where it is and say whether it is usable. Exit 77 if one is not.",
        module="keys",
        function="check",
        arguments=(Argument(name="id", required=False, completes="credentials"),),
        options=(JSON,),
        examples=("routekit keys check", "routekit keys check openai"),
    ),
    Verb(
        path=("keys", "path"),
        help="Where keys are kept.",
        module="keys",
        function="path",
        examples=("routekit keys path",),
    ),
    Verb(
        path=("health", "list"),
        help="Targets and credentials about which something is remembered.",
        module="health",
        function="listing",
        options=(JSON,),
    ),
    Verb(
        path=("health", "reset"),
        help="End the windows of a target or credential by hand.",
        module="health",
        function="reset",
        arguments=(Argument(name="id", required=False),),
        options=(Option(flags=("--all",), help="Of everything.", kind="flag"),),
        examples=("routekit health reset openai/gpt-6.1-terra", "routekit health reset --all"),
    ),
    Verb(
        path=("budget", "list"),
        help="Every budget: spent, reserved, limit, window, when the first of it frees.",
        module="budget",
        function="listing",
        options=(JSON,),
    ),
    Verb(
        path=("budget", "show"),
        help="The budgets of one provider, target or route.",
        module="budget",
        function="show",
        arguments=(Argument(name="id"),),
        options=(JSON,),
        examples=("routekit budget show openai", "routekit budget show route:plan"),
    ),
    Verb(
        path=("budget", "reset"),
        help="Forget what was spent and reserved of a budget.",
        module="budget",
        function="reset",
        arguments=(Argument(name="id", required=False),),
        options=(Option(flags=("--all",), help="Of every budget.", kind="flag"), JSON),
        examples=("routekit budget reset openai", "routekit budget reset --all"),
    ),
    Verb(
        path=("why",),
        help="Why the last (or that) request was served as it was.",
        module="why",
        function="why",
        arguments=(Argument(name="id", required=False),),
        options=(JSON,),
        examples=("routekit why", "routekit why 19b2c --json"),
    ),
    Verb(
        path=("stats",),
        help="Attempts, time, tokens and money per target in the last day (or since).",
        module="stats",
        function="stats",
        options=(
            Option(flags=("--since",), help="Look back this long (default 24h).", kind="seconds", metavar="TIME"),
            JSON,
        ),
        examples=("routekit stats", "routekit stats --since 168h --json"),
    ),
    Verb(
        path=("logs", "list"),
        help="The newest questions and answers, the newest last.",
        module="logs",
        function="listing",
        options=(
            Option(flags=("-q", "--query"), help="Only those with words that begin so.", metavar="TEXT"),
            Option(
                flags=("-m", "--model"),
                help="Only those asked of, or served by, this.",
                metavar="ID",
                completes="references",
            ),
            Option(flags=("-n", "--count"), help="How many (default 20; 0 for all).", kind="integer", metavar="N"),
            Option(
                flags=("-c", "--conversation"),
                help="Only this terminal's last conversation, else this directory's.",
                kind="flag",
            ),
            Option(flags=("--cid",), help="Only this conversation.", metavar="ID", completes="conversations"),
            Option(flags=("-r", "--response"), help="The last answer alone, as it came.", kind="flag"),
            Option(flags=("-u", "--usage"), help="With tokens and money.", kind="flag"),
            JSON,
        ),
        examples=(
            "routekit logs -q cheesecake",
            "routekit logs list -n 3 -u",
            "routekit logs -r | less",
            "routekit logs list --json -n 0",
        ),
    ),
    Verb(
        path=("logs", "show"),
        help="One question with its answer, or a whole conversation.",
        module="logs",
        function="show",
        arguments=(Argument(name="id", completes="entries"),),
        options=(Option(flags=("-r", "--response"), help="The answer alone.", kind="flag"), JSON),
        examples=("routekit logs show 19b2c",),
    ),
    Verb(
        path=("logs", "rm"),
        help="Remove an entry, a conversation, or everything older than a time. It is overwritten.",
        module="logs",
        function="remove",
        arguments=(Argument(name="id", required=False, completes="entries"),),
        options=(
            Option(flags=("--older-than",), help="Everything older (30d, 12h).", kind="seconds", metavar="TIME"),
            Option(flags=("--all",), help="Everything.", kind="flag"),
            JSON,
        ),
        examples=("routekit logs rm 19b2c", "routekit logs rm --older-than 30d"),
    ),
    Verb(
        path=("logs", "on"),
        help="Keep questions and answers again.",
        module="logs",
        function="switch_on",
        examples=("routekit logs on",),
    ),
    Verb(
        path=("logs", "off"),
        help="Keep no more questions and answers; what is there stays.",
        module="logs",
        function="switch_off",
        examples=("routekit logs off",),
    ),
    Verb(
        path=("logs", "status"),
        help="Whether questions and answers are kept, where, and how many.",
        module="logs",
        function="status",
        options=(JSON,),
        examples=("routekit logs status",),
    ),
    Verb(
        path=("logs", "path"),
        help="The log's file.",
        module="logs",
        function="path",
        examples=("routekit logs path",),
    ),
    Verb(
        path=("default",),
        help="Show or set what is asked when nothing is named.",
        module="default",
        function="default",
        arguments=(Argument(name="id", required=False, completes="references"),),
        options=(JSON,),
        examples=("routekit default", "routekit default plan"),
    ),
    Verb(
        path=("doctor",),
        help="What works on this machine, and what to type where something does not. Exit 1 if something fails.",
        module="doctor",
        function="doctor",
        options=(
            Option(flags=("--offline",), help="Without network, and without running key commands.", kind="flag"),
            JSON,
        ),
        examples=("routekit doctor", "routekit doctor --offline --json"),
    ),
    Verb(
        path=("completion",),
        help="The script that makes TAB complete names and options in your shell.",
        module="completion",
        function="completion",
        arguments=(Argument(name="shell", help="bash, zsh or fish.", completes="shells"),),
        options=(Option(flags=("--install",), help="Put it where your shell finds it.", kind="flag"),),
        examples=("routekit completion zsh --install", "routekit completion bash > ~/.routekit-completion"),
    ),
    Verb(
        path=("config", "path"),
        help="Every file routekit uses.",
        module="config",
        function="path",
        options=(JSON,),
        examples=("routekit config path",),
    ),
    Verb(
        path=("config", "show"),
        help="The config in force, as TOML.",
        module="config",
        function="show",
        examples=("routekit config show", "routekit --profile demo config show"),
    ),
    Verb(
        path=("config", "check"),
        help="Load and expand everything; list what is wrong. Exit 0 clean, 1 warnings, 78 errors.",
        module="config",
        function="check",
        options=(JSON,),
        examples=("routekit config check", "routekit config check --json"),
    ),
    Verb(
        path=("config", "edit"),
        help="Open the config in your editor, on a copy; it is taken over only if it loads.",
        module="editor",
        function="edit",
        examples=("routekit config edit", "EDITOR='code --wait' routekit config edit"),
    ),
    Verb(
        path=("config", "set"),
        help="Set any key of the config, by its path.",
        module="settings",
        function="change",
        arguments=(Argument(name="key"), Argument(name="value", help="TOML, or plain text.")),
        options=(JSON,),
        examples=("routekit config set limits.first_output 20s", "routekit config set log.conversations false"),
    ),
    Verb(
        path=("config", "unset"),
        help="Take a key of the config away, so that its default counts again.",
        module="settings",
        function="unset",
        arguments=(Argument(name="key"),),
        options=(JSON,),
        examples=("routekit config unset limits.first_output",),
    ),
    Verb(
        path=("config", "schema"),
        help="The JSON Schema of the config file, for editors that complete and check it.",
        module="settings",
        function="schema",
        examples=("routekit config schema > routekit.schema.json",),
    ),
    Verb(
        path=("smoke", "local"),
        help="Drills in memory: no network, no keys. Exit 1 if one fails.",
        module="smoke",
        function="local",
        options=(
            Option(flags=("--routes",), help="Walk your own routes too, with their targets failing.", kind="flag"),
            JSON,
            JUNIT,
        ),
        examples=("routekit smoke", "routekit smoke --routes", "routekit smoke --junit smoke.xml"),
    ),
    Verb(
        path=("smoke", "deployed"),
        help="Show what a profile is made of, then ask one short question through each of its routes, for real.",
        module="smoke",
        function="deployed",
        arguments=(
            Argument(name="profile_name", help="A profile, or 'default' for the config without one."),
            Argument(name="route", help="Only these.", many=True, required=False, completes="references"),
        ),
        options=(
            Option(flags=("--dump-only",), help="Show what it is made of; ask nobody.", kind="flag"),
            Option(flags=("--each-target",), help="Ask every target once, backups too.", kind="flag"),
            Option(
                flags=("--timeout",),
                help="What one question may take (default 180s, or SMOKE_TIMEOUT_S).",
                kind="seconds",
                metavar="TIME",
            ),
            Option(flags=("--parallel",), help="So many questions at a time (default 1).", kind="integer", metavar="N"),
            JSON,
            JUNIT,
        ),
        examples=(
            "routekit smoke deployed default",
            "routekit smoke deployed work plan --timeout 60s",
            "routekit smoke deployed work --patch overlay.toml --dump-only",
            "routekit smoke deployed work --each-target --parallel 4 --junit smoke.xml",
        ),
    ),
)
