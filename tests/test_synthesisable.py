"""The synthesisability check: the kernels pass it, and every rule rejects what breaks it."""

import subprocess
import sys
from pathlib import Path

import pytest

CHECK = Path(__file__).parents[1] / "hls/check"
sys.path.insert(0, str(CHECK))

import fifos  # noqa: E402
from pragmas import TABLE, faults, parse, read_pragmas, table  # noqa: E402
from rules import RULES  # noqa: E402
from synthesisable import Checker  # noqa: E402

# A top with one process, whose parts the cases below replace.
SOURCE = """
#include <cstdint>
#include "actdma/stream.hpp"
using actdma::cycle;
using actdma::Stream;
struct Token {{
  uint32_t w[4];
  bool last;
}};
using Tokens = Stream<Token, 8>;
using Port = hls::stream<Token>;
{declarations}
static void copy(Port& in, Port& out) {{
  {state}
  for (bool done = false; !done;) {{
#pragma HLS PIPELINE II = 1
#pragma HLS LOOP_TRIPCOUNT min = 1 max = 1024
    cycle();
    Token token = in.read();
    const uint32_t n = token.w[0];
    {step}
    done = token.last;
    out.write(token);
  }}
}}
void top(Port& in, Port& out) {{
#pragma HLS INTERFACE mode = axis port = in
#pragma HLS INTERFACE mode = axis port = out
#pragma HLS INTERFACE mode = ap_ctrl_none port = return
#pragma HLS DATAFLOW
  {region}
}}
"""
REGION = """Tokens between("between");
  ACTDMA_PROCESS(copy(in, between));
  ACTDMA_PROCESS(copy(between, out));"""


def source(declarations="", state="", step="", region=REGION):
    return SOURCE.format(declarations=declarations, state=state, step=step, region=region)


def check(tmp_path, text, **headers):
    """The rules that a top's source breaks, with the line of each."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src/top.cpp").write_text(text)
    (tmp_path / "include/actdma").mkdir(parents=True)
    for name, header in headers.items():
        (tmp_path / f"include/actdma/{name}.hpp").write_text(header)
    return Checker(tmp_path).check((4,))


def unrolled(body, head="int i = 0; i < 4; i++"):
    return f"for ({head}) {{\n#pragma HLS UNROLL\n{body}\n}}"


def copies(*pairs):
    """The processes of a region, each copying one stream to another."""
    return "\n".join("ACTDMA_PROCESS(copy({}, {}));".format(*pair.split()) for pair in pairs)


MIDDLE = "ACTDMA_PROCESS(middle(in, out));"
ARRAY = "uint32_t a[4] = {};\n#pragma HLS ARRAY_PARTITION variable = a type = complete"
MEMORY = "uint32_t a[64];\n#pragma HLS BIND_STORAGE variable = a type = ram_2p impl = bram"
LOOP = "for (int i = 0; i < 4; i++) out.write(in.read());"

# Rule, what is wrong, and the source.
BAD = [
    ("parse", "syntax", source(step="token.w[0] = ;")),
    ("parse", "unknown name", source(step="token.w[0] = unknown;")),
    ("allocation", "new", source(step="delete new Token;")),
    (
        "allocation",
        "malloc",
        source('extern "C" void* malloc(decltype(sizeof 0));', step="malloc(4);"),
    ),
    (
        "recursion",
        "direct",
        source("uint32_t f(uint32_t n) { return n ? f(n - 1) : 0; }", step="token.w[0] = f(n);"),
    ),
    (
        "recursion",
        "mutual",
        source(
            "uint32_t g(uint32_t n);\nuint32_t f(uint32_t n) { return n ? g(n - 1) : 0; }\n"
            "uint32_t g(uint32_t n) { return f(n); }",
            step="token.w[0] = f(n);",
        ),
    ),
    (
        "recursion",
        "through a template",
        source(
            "template <class T> T f(T n) { return n ? f<T>(n - 1) : T(0); }",
            step="token.w[0] = f<uint32_t>(n);",
        ),
    ),
    (
        "recursion",
        "constexpr at run time",
        source(
            "constexpr int f(int n) { return n ? 1 + f(n - 1) : 0; }",
            step=unrolled("token.w[i] = 0;", "int i = 0; i < f(4); i++"),
        ),
    ),
    ("virtual", "method", source("struct S { virtual uint32_t f() { return 0; } };")),
    (
        "virtual",
        "method of a template",
        source("template <class T> struct S { virtual T f() = 0; };"),
    ),
    ("virtual", "base", source("struct A {};\nstruct B : virtual A {};")),
    ("exception", "throw", source(step="if (n) throw 1;")),
    ("exception", "try", source(step="try { token.w[0] = 0; } catch (...) {}")),
    (
        "rtti",
        "dynamic_cast",
        source(
            "struct A { virtual void f(); };\nstruct B : A {};\n"
            "bool f(A* a) { return dynamic_cast<B*>(a); }"
        ),
    ),
    ("rtti", "typeid", source("#include <typeinfo>", step="token.last = typeid(n) == typeid(0);")),
    ("std", "container", source("#include <array>\n", "std::array<uint32_t, 4> a = {};")),
    ("std", "function", source("#include <algorithm>", step="token.w[0] = std::min(n, 3u);")),
    (
        "external-call",
        "memcpy",
        source("#include <cstring>", step="std::memcpy(&token, &token, 4);"),
    ),
    ("pointer", "to a pointer", source("bool f(uint32_t** p) { return p; }")),
    ("pointer", "array", source("bool f(uint32_t (&a)[4]) { uint32_t* p[2] = {a, a}; return p; }")),
    (
        "function-pointer",
        "variable",
        source("uint32_t f() { return 0; }", "uint32_t (*g)() = f;", "token.w[0] = g();"),
    ),
    (
        "function-pointer",
        "parameter",
        source("uint32_t f(uint32_t (*g)()) { return g(); }"),
    ),
    ("function-pointer", "member", source("struct S { uint32_t f(); };\nuint32_t (S::*p)() = {};")),
    ("function-pointer", "lambda", source(step="token.w[0] = [&] { return n; }();")),
    ("static-state", "local", source(state="static uint32_t count = 0;")),
    ("static-state", "global", source("uint32_t count = 0;")),
    ("static-state", "thread", source("thread_local uint32_t count = 0;")),
    ("static-state", "member", source("struct S { static inline uint32_t count = 0; };")),
    ("variable-array", "local", source(step="uint32_t a[n]; token.w[0] = a[0];")),
    (
        "reinterpret",
        "cast",
        source(step="token.w[0] = *reinterpret_cast<uint32_t*>(token.w);"),
    ),
    ("reinterpret", "C cast", source(step="token.w[0] = ((uint8_t*)token.w)[0];")),
    ("reinterpret", "union", source("union U { uint32_t a; uint16_t b; };")),
    ("float", "variable", source(step="float f = n; token.w[0] = f > 1;")),
    ("float", "expression", source(step="token.w[0] = n * 1.5;")),
    ("float", "field", source("struct S { double d; };")),
    (
        "float",
        "template argument",
        source("template <class T> T f(T t) { return t + t; }", step="token.w[0] = f<float>(1);"),
    ),
    ("division", "32 bits", source(step="token.w[0] = 100 / n;")),
    ("division", "64 bits", source(step="token.w[0] = uint64_t(100) % (n | 1);")),
    ("division", "assignment", source(step="token.w[1] /= n;")),
    ("external-call", "C library", source("#include <unistd.h>", step="token.w[0] = getpid();")),
    ("external-call", "no body", source("uint32_t f(uint32_t n);", step="token.w[0] = f(n);")),
    ("external-call", "builtin", source(step="token.w[0] = __builtin_popcount(n);")),
    ("external-call", "assembly", source(step='asm("nop");')),
    ("loop-bound", "while", source(step="while (token.w[0] & 1) token.w[0] >>= 1;")),
    ("loop-bound", "variable bound", source(step="for (uint32_t i = 0; i < n; i++) {}")),
    ("loop-bound", "variable start", source(step="for (uint32_t i = n; i < 4; i++) {}")),
    ("loop-bound", "changed inside", source(step="for (int i = 0; i < 4; i++) i -= n & 1;")),
    ("loop-bound", "wrong way", source(step="for (int i = 4; i > 0; i++) {}")),
    ("loop-bound", "halved for ever", source(step="for (int i = 4; i > -1; i /= 2) {}")),
    ("loop-bound", "doubled from 0", source(step="for (int i = 0; i < 4; i *= 2) {}")),
    (
        "loop-bound",
        "around a pipeline",
        source(
            "static void f(Port& in, Port& out) {\nbool last;\ndo {\n"
            "for (int i = 0; i < 4; i++) {\n#pragma HLS PIPELINE II = 1\ncycle();\n"
            "Token t = in.read();\nlast = t.last;\nout.write(t);\n}\n} while (!last);\n}",
            region="ACTDMA_PROCESS(f(in, out));",
        ),
    ),
    ("loop-bound", "goto", source(step="again: if (n) goto again;")),
    (
        "loop-bound",
        "no trip count",
        source().replace("#pragma HLS LOOP_TRIPCOUNT min = 1 max = 1024\n", ""),
    ),
    (
        "loop-bound",
        "unrolled by a parameter",
        source(
            "void f(uint32_t n, Token& token) {\n"
            + unrolled("token.last = !token.last;", "uint32_t i = 0; i < n; i++")
            + "\n}",
            step="f(n, token);",
        ),
    ),
    ("pipeline", "none", source(state=LOOP)),
    ("pipeline", "II = 2", source().replace("II = 1", "II = 2")),
    ("pipeline", "no II", source().replace("PIPELINE II = 1", "PIPELINE")),
    ("pipeline", "off", source().replace("II = 1", "II = 1 off")),
    (
        "pipeline",
        "nested",
        source(step="for (int i = 0; i < 4; i++) {\n#pragma HLS PIPELINE II = 1\n}"),
    ),
    ("partition", "array", source(state="uint32_t a[4] = {};", step="token.w[0] = a[0];")),
    (
        "partition",
        "member",
        source("struct S { uint32_t a[4] = {}; };", "S s;", "token.w[0] = s.a[0];"),
    ),
    ("partition", "array of tokens", source(state="Token a[2] = {};")),
    ("partition", "one of two dimensions", source(state=ARRAY.replace("a[4]", "a[4][4]"))),
    (
        "partition",
        "cyclic",
        source(state=ARRAY.replace("complete", "cyclic factor = 2")),
    ),
    ("dynamic-index", "read", source(state=ARRAY, step="token.w[0] = a[n & 3];")),
    ("dynamic-index", "write", source(step="token.w[n & 3] = 0;")),
    ("dynamic-index", "pointer", source(step="token.w[0] = *(token.w + (n & 3));")),
    ("dynamic-index", "moving", source(step="uint32_t* p = token.w; p++;")),
    (
        "dynamic-index",
        "loop that stays a loop",
        source(
            state=ARRAY
            + "\nfor (int i = 0; i < 4; i++) {\n#pragma HLS PIPELINE II = 1\na[i] = 0;\n}"
        ),
    ),
    (
        "dynamic-index",
        "parameter",
        source(
            "uint32_t f(const uint32_t w[4], uint32_t i) { return w[i & 3]; }",
            step="token.w[0] = f(token.w, n);",
        ),
    ),
    ("pragma", "name", source().replace("DATAFLOW", "DATA_FLOW")),
    ("pragma", "option", source().replace("II = 1", "interval = 1")),
    ("pragma", "value", source().replace("II = 1", "II = 0")),
    (
        "pragma",
        "positional type",
        source(state=ARRAY.replace("type = complete", "complete")),
    ),
    ("pragma-place", "loop", source().replace("PIPELINE II = 1", "INLINE")),
    ("pragma-place", "function", source().replace("DATAFLOW", "UNROLL")),
    ("pragma-place", "outside", source("#pragma HLS INLINE")),
    (
        "pragma-place",
        "interface of a process",
        source(state="#pragma HLS INTERFACE mode = axis port = in"),
    ),
    ("pragma-variable", "array", source(state=ARRAY.replace("variable = a", "variable = b"))),
    ("pragma-variable", "port", source().replace("port = in", "port = input")),
    ("interface", "port", source().replace("#pragma HLS INTERFACE mode = axis port = in", "")),
    (
        "interface",
        "linkage of C",
        source().replace("void top", 'extern "C" void top').replace("port = return", "port = in"),
    ),
    ("interface", "control", source().replace("ap_ctrl_none port = return", "axis port = in")),
    ("stream-depth", "none", source(region=REGION.replace("Tokens", "Port"))),
    ("stream-access", "empty", source(step="if (in.empty()) token.w[0] = 0;")),
    ("stream-access", "read_nb", source(step="in.read_nb(token);")),
    ("region", "statement", source(region="int count = 0; count++;" + REGION)),
    (
        "region",
        "plain call",
        source(region="Tokens between;\ncopy(in, between);\n" + copies("between out")),
    ),
    (
        "region",
        "neither inlined nor dataflow",
        source("static void middle(Port& in, Port& out);", region=MIDDLE)
        + f"static void middle(Port& in, Port& out) {{\n{REGION}\n}}",
    ),
    ("region", "loop", source(region=unrolled(copies("in out"), "int i = 0; i < 1; i++"))),
    ("region-stream", "no reader", source(region="Tokens a, b;\n" + copies("in a", "a out"))),
    (
        "region-stream",
        "two writers",
        source(region="Tokens a, b;\n" + copies("in b", "in a", "b a", "a out")),
    ),
    ("region-stream", "feedback", source(region="Tokens a;\n" + copies("a out", "in a"))),
    (
        "region-stream",
        "port read twice",
        source(region="Tokens a, b;\n" + copies("in a", "in b", "a out", "b out")),
    ),
    (
        "process",
        "no stream",
        source("static void f() {}", region=f"{REGION}\nACTDMA_PROCESS(f());"),
    ),
    ("process", "value", source().replace("void copy", "bool copy")),
    ("process", "no cycle", source().replace("cycle();", "")),
]


GOOD = {
    "as it is": source(),
    "unrolled": source(state=ARRAY, step=unrolled("token.w[i] = a[3 - i] >> (n & 3);")),
    "index from an outer loop": source(
        step="for (int k = 1; k >= 0; k--) {\n"
        + unrolled("token.w[i] = token.w[i - (1 << k)];", "int i = 3; i >= 1 << k; i--")
        + "\n}"
    ),
    "index from a constant of the loop": source(
        step=unrolled(
            "const int from = i + 1 < 4 ? i + 1 : i;\n"
            "if (token.w[from] > n) token.w[i] = token.w[from];"
        )
    ),
    "index from a parameter": source(
        "static uint32_t pick(const uint32_t w[4], int i) { return w[i]; }",
        step=unrolled("token.w[i] = pick(token.w, i);"),
    ),
    "constant loop in a pipeline": source(step="for (int i = 0; i < 4; i++) token.w[i] = 0;"),
    "halved": source(step="for (int i = 4 / 2; i > 0; i /= 2) token.w[i] = token.w[i - 1];"),
    "doubled": source(step="for (int i = 1; i < 4; i <<= 1) token.w[i] = 0;"),
    "straight line": source(
        "static void f(Port& in, Port& out) { out.write(in.read()); }",
        region="Tokens a;\nACTDMA_PROCESS(f(in, a));\n" + copies("a out"),
    ),
    "loop around a pipeline": source(
        "static void f(Port& in, Port& out) {\nbool last;\ndo {\n"
        "#pragma HLS LOOP_TRIPCOUNT max = 99\n"
        "for (int i = 0; i < 4; i++) {\n#pragma HLS PIPELINE II = 1\ncycle();\n"
        "Token t = in.read();\nlast = t.last;\nout.write(t);\n}\n} while (!last);\n}",
        region="Tokens a;\nACTDMA_PROCESS(f(in, a));\n" + copies("a out"),
    ),
    "memory": source(state=MEMORY, step="a[n & 63] = n; token.w[0] = a[n >> 6 & 63];"),
    "memory of the state": source(
        "struct S { uint32_t line[64]; uint32_t step(uint32_t n) { return line[n & 63]; } };",
        "S s;\n#pragma HLS BIND_STORAGE variable = s.line type = ram_2p impl = bram",
        "token.w[0] = s.step(n);",
    ),
    "memory as a parameter": source(
        "static uint32_t at(const uint32_t a[64], uint32_t i) { return a[i & 63]; }",
        MEMORY,
        "token.w[0] = at(a, n);",
    ),
    "two dimensions": source(state=ARRAY.replace("a[4]", "a[4][4]") + " dim = 0"),
    "each dimension": source(
        state=ARRAY.replace("a[4]", "a[4][4]")
        + " dim = 1\n#pragma HLS ARRAY_PARTITION variable = a type = complete dim = 2"
    ),
    "table of constants": source(
        "constexpr uint32_t kTable[4] = {1, 2, 3, 4};",
        step=unrolled("token.w[i] ^= kTable[i];"),
    ),
    "recursion in a constant": source(
        "constexpr int log2(int n) { return n > 1 ? 1 + log2(n / 2) : 0; }",
        step="constexpr int kStages = log2(16);\n"
        + unrolled("token.w[i] = 0;", "int i = 0; i < kStages; i++"),
    ),
    "recursion of templates": source(
        "template <int N> static uint32_t sum(const uint32_t w[4]) {\n"
        "if constexpr (N == 0) return 0; else return w[N - 1] + sum<N - 1>(w);\n}",
        step="token.w[0] = sum<4>(token.w);",
    ),
    "division by a constant": source(step="token.w[0] = n / 3 % (4 + 1);"),
    "integers of std": source(step="std::uint32_t x = n; token.w[0] = x;"),
    "static constant": source(
        state="static const uint32_t kMask = 3;", step="token.w[0] &= kMask;"
    ),
    "depth as a pragma": source(
        region=REGION.replace("Tokens", "Port")
        + "\n#pragma HLS STREAM variable = between type = fifo depth = 8"
    ),
    "region in a region": source(
        "static void middle(Port& in, Port& out);",
        region=MIDDLE,
    )
    + f"static void middle(Port& in, Port& out) {{\n#pragma HLS INLINE\n{REGION}\n}}",
    "process left out": source(
        "constexpr bool kHas = true;",
        region=f"if constexpr (kHas) {{\n{REGION}\n}} else {{\nACTDMA_PROCESS(copy(in, out));\n}}",
    ),
    "simulation": source(
        "#ifndef __SYNTHESIS__\n#include <vector>\nstd::vector<float> log;\n#endif"
    ),
    "vendor's integers": source(
        "#include <ap_int.h>",
        step="ap_uint<128> x = n; x <<= 3; token.w[0] = x.range(31, 0).to_uint();",
    ),
    "linkage of C": source().replace("void top", 'extern "C" void top'),
    "burst": """
#include <cstdint>
#include "actdma/stream.hpp"
void top(const uint32_t* memory, uint32_t words, hls::stream<uint32_t>& out) {
#pragma HLS INTERFACE mode = m_axi port = memory bundle = gmem max_read_burst_length = 64
#pragma HLS INTERFACE mode = s_axilite port = words
#pragma HLS INTERFACE mode = axis port = out
#pragma HLS INTERFACE mode = s_axilite port = return
  for (uint32_t i = 0; i < words; i++) {
#pragma HLS PIPELINE II = 1
#pragma HLS LOOP_TRIPCOUNT min = 1 max = 1 << 20
    out.write(memory[i]);
  }
}
""".replace("1 << 20", "1048576"),
}
HELPER = "#include <cstdint>\nnamespace actdma {{\n{}\n}}\n"


@pytest.mark.parametrize(
    ("rule", "text"), [(r, t) for r, _, t in BAD], ids=[f"{r}: {w}" for r, w, _ in BAD]
)
def test_every_rule_rejects_what_breaks_it(tmp_path, rule, text):
    assert rule in {finding.rule for finding in check(tmp_path, text)}


def test_every_rule_has_a_source_that_breaks_it():
    assert {rule for rule, _, _ in BAD} | {"unreached"} == set(RULES)


@pytest.mark.parametrize("text", GOOD.values(), ids=GOOD)
def test_what_breaks_no_rule_passes(tmp_path, text):
    assert check(tmp_path, text) == []


def test_the_kernels_pass_at_every_width():
    result = subprocess.run(
        [sys.executable, CHECK / "synthesisable.py"], capture_output=True, text=True
    )
    assert (result.returncode, result.stdout) == (0, "")
    assert result.stderr.startswith("0 findings")


def test_the_command_names_file_line_rule_and_remedy(tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src/top.cpp").write_text(source(step="token.w[0] = 100 / n;"))
    command = [sys.executable, CHECK / "synthesisable.py", tmp_path, "--lanes", "4"]
    result = subprocess.run(command, capture_output=True, text=True)
    line = source(step="@").split("@")[0].count("\n") + 1
    assert result.returncode == 1
    assert f"{tmp_path}/src/top.cpp:{line}: division: " in result.stdout
    assert "use shifts" in result.stdout


@pytest.mark.parametrize(
    "helper",
    [
        "inline int f() { return 0; }",
        "template <class T> T f() { return 0; }",
        "struct S { int f() { return 0; } };",
    ],
)
def test_a_header_that_no_top_reaches_is_not_left_unchecked(tmp_path, helper):
    (finding,) = check(tmp_path, source(), spare=HELPER.format(helper))
    assert (finding.rule, finding.path.name) == ("unreached", "spare.hpp")


@pytest.mark.parametrize(
    "helper",
    [
        "constexpr int f() { return 0; }",
        "#ifndef __SYNTHESIS__\nint f() { return 0; }\n#endif",
    ],
)
def test_what_synthesis_does_not_build_need_not_be_reached(tmp_path, helper):
    assert check(tmp_path, source(), spare=HELPER.format(helper)) == []


def test_a_function_left_out_by_a_switch_may_have_pragmas(tmp_path):
    helper = (
        "#ifndef ACTDMA_EXTRA\n#define ACTDMA_EXTRA 0\n#endif\n#if ACTDMA_EXTRA\n"
        "constexpr int f() {\n#pragma HLS INLINE\n  return 0;\n}\n#endif"
    )
    assert check(tmp_path, source(), spare=HELPER.format(helper)) == []


def test_rules_hold_in_templates_that_nothing_instantiates(tmp_path):
    helper = "template <class T> T* f() { return new T(); }"
    findings = check(tmp_path, source(), spare=HELPER.format(helper))
    assert {finding.rule for finding in findings} == {"allocation", "unreached"}


def test_findings_depend_on_the_stream_width(tmp_path):
    (tmp_path / "src").mkdir()
    text = source(step="if constexpr (ACTDMA_LANES == 8) token.w[n & 3] = 0;")
    (tmp_path / "src/top.cpp").write_text(text)
    assert Checker(tmp_path).check((2, 4)) == []
    assert {finding.rule for finding in Checker(tmp_path).check((4, 8))} == {"dynamic-index"}


@pytest.mark.parametrize("default", [0, 1])
@pytest.mark.parametrize("condition", ["ACTDMA_EXTRA", "!ACTDMA_EXTRA"])
def test_switches_are_checked_on_and_off(tmp_path, default, condition):
    switch = f"#ifndef ACTDMA_EXTRA\n#define ACTDMA_EXTRA {default}\n#endif"
    code = unrolled("token.w[n & 3] = 0;")
    text = source(switch, step=f"#if {condition}\n{code}\n#endif")
    assert {finding.rule for finding in check(tmp_path, text)} == {"dynamic-index"}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("PIPELINE II = 1 style = flp", None),
        ("pipeline II=1", None),
        ("PIPELINE II = one", None),  # a named constant
        ("PIPELINE II = 0", "at least 1"),
        ("PIPELINE ii = 1", "no option 'ii'"),
        ("PIPELINE style = fast", "allowed are stp, flp, frp"),
        ("UNROLL factor = 4 skip_exit_check", None),
        ("UNROLL skip_exit_check", "needs factor="),
        ("ARRAY_PARTITION variable = a type = complete factor = 2", "takes no factor="),
        ("ARRAY_PARTITION variable = a type = cyclic", "needs factor="),
        ("ARRAY_PARTITION type = complete", "without variable="),
        ("BIND_STORAGE variable = a type = ram_3p", "allowed are fifo, ram_1p"),
        ("BIND_STORAGE variable = a type = rom_1p impl = lutram latency = 2", None),
        ("INTERFACE mode = m_axi port = a bundle = g offset = slave", None),
        ("INTERFACE mode = axi4 port = a", "allowed are ap_none"),
        ("LOOP_TRIPCOUNT min = 1 max = kMaxBeats", None),
        ("LOOP_TRIPCOUNT min = 1", "without max="),
        ("STREAM variable = a depth = -1", "at least 1"),
        ("DATAFLOW", None),
        ("RESOURCE variable = a core = RAM_2P_BRAM", "not in pragmas.toml"),
        ("", "not in pragmas.toml"),
    ],
)
def test_pragmas_are_held_to_the_table(text, fault):
    found = list(faults(parse(1, text)))
    assert found == [] if fault is None else any(fault in line for line in found)


def test_a_pragma_may_go_on_after_a_backslash(tmp_path):
    (tmp_path / "a.cpp").write_text(
        "int a;\n#pragma HLS ARRAY_PARTITION variable = a \\\n  type = complete\n"
    )
    (pragma,) = read_pragmas(tmp_path / "a.cpp")
    assert (pragma.line, pragma.name) == (2, "ARRAY_PARTITION")
    assert pragma.options == {"variable": "a", "type": "complete"}


def test_the_table_of_pragmas_names_its_source():
    assert "UG1399" in TABLE.read_text()
    for name, entry in table().items():
        assert entry["source"] == f"pragma HLS {name.lower()}"
        assert set(entry["place"]) <= {"loop", "function", "top"}
        assert set(entry.get("required", [])) <= set(entry.get("options", {}))


# What the FIFOs take.


def test_the_guide_s_block_ram_is_what_the_declarations_come_to():
    assert fifos.table() in (CHECK.parents[1] / "docs/hardware.md").read_text()


@pytest.mark.parametrize(
    ("bits", "depth", "expected"),
    [(160, 32, 0), (36, 512, 1), (37, 512, 2), (160, 1024, 9), (129, 2048, 15)],
)
def test_block_ram_of_a_memory(bits, depth, expected):
    assert fifos.half_blocks(bits, depth) == expected
