#!/usr/bin/env python3
"""Turns PTX into C++ that the simulator runs in place of the .cu source: one statement an instruction.

  ptx.py FILE.ptx >FILE.cc

What a real driver compiles is then what the tests run, and findings name lines of the PTX. An instruction that is not
known here fails the run, with its line: write it into INSTRUCTIONS.
"""

import re
import sys


class Failure(Exception):
    """What is not understood, and where."""


SPECIAL = {f"%{ptx}.{axis}": f"{cuda}.{axis}" for axis in "xyz"
           for ptx, cuda in (("tid", "threadIdx"), ("ntid", "blockDim"), ("ctaid", "blockIdx"), ("nctaid", "gridDim"))}
SPECIAL["%laneid"] = "(threadIdx.x & 31)"  # of blocks of one dimension, as all are here
COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "lo": "<", "ls": "<=", "hi": ">",
           "hs": ">=", "neu": "!="}
# Of floats: what must not hold, as nothing does with NaN.
UNORDERED = {"ltu": ">=", "leu": ">", "gtu": "<=", "geu": "<"}
SPACES = {"global", "shared", "local", "const", "param"}
ATOMICS = {"add": "ADD", "cas": "CAS", "or": "OR", "and": "AND", "xor": "XOR", "exch": "EXCH"}


def ctype(ptx):
    kind, bits = ptx[0], ptx[1:]
    if ptx == "pred":
        return "bool"
    if kind == "f":
        return {"32": "float", "64": "double"}[bits]
    return {"s": "int%s_t", "u": "uint%s_t", "b": "uint%s_t"}[kind] % bits


def width(ptx):
    return 8 if ptx == "pred" else int(ptx[1:])


def unsigned(ptx):
    return "u" + ptx[1:]


def comma(text):
    """Splits operands at commas outside of brackets."""
    return [p.strip() for p in re.split(r",(?![^{\[]*[}\]])", text) if p.strip()]


class Kernel:
    """One .entry: what it declares, and its instructions as C++."""

    def __init__(self, name, parameters, symbols):
        self.name, self.symbols = name, dict(symbols)
        self.scopes, self.out, self.shared, self.line = [{}], [], [], 0
        # Predicates that say whether a shuffle's source took part: not known here, so nobody may read them.
        self.unread = set()
        self.parameters = []
        for p in comma(parameters):
            m = re.fullmatch(r"\.param\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+(\w+)(?:\[(\d+)\])?", " ".join(p.split()))
            if not m:
                raise Failure(f"kernel {name}: parameter {p!r}")
            align, kind, parameter, size = m.groups()
            self.symbols[parameter] = f"P_{parameter}"
            shape = f"struct alignas({align or 1}) T_{parameter} {{ char bytes[{size}]; }};" if size else ""
            self.parameters.append((shape, f"T_{parameter}" if size else ctype(kind), f"P_{parameter}"))

    # --- operands ---

    def type(self, register):
        stem = re.match(r"%[A-Za-z_]+", register)[0]
        for scope in reversed(self.scopes):
            if found := scope.get(register) or scope.get(stem):
                return found
        raise Failure(f"register {register} is not declared")

    @staticmethod
    def name_of(register):
        return re.sub(r"[^\w]", "_", register.replace("%", "R_").replace("$", "L_"))

    def value(self, operand, kind):
        """The C++ of an operand read as this type: the low bits of a wider register."""
        want = ctype(kind)
        if operand in SPECIAL:
            return f"({want})({SPECIAL[operand]})"
        if operand[0] == "!":
            return f"!{self.value(operand[1:], kind)}"
        if operand[0] == "%":
            if operand in self.unread:
                raise Failure(f"{operand} says whether a lane of a shuffle took part, which is not known here")
            have = self.type(operand)
            if (have[0] == "f") != (kind[0] == "f"):
                return f"ptx_as<{want}>({self.name_of(operand)})"
            return self.name_of(operand) if have == kind else f"({want})({self.name_of(operand)})"
        if m := re.fullmatch(r"0[fF]([0-9a-fA-F]{8})|0[dD]([0-9a-fA-F]{16})", operand):
            return f"({want})ptx_as<float>(0x{m[1]}u)" if m[1] else f"({want})ptx_as<double>((uint64_t)0x{m[2]}ull)"
        if m := re.fullmatch(r"(-?)(0[xX][0-9a-fA-F]+|\d+)U?", operand):
            return f"({want})({'0 - ' if m[1] else ''}{int(m[2], 0)}ull)"
        if operand in ("true", "false"):
            return operand
        if operand in self.symbols:
            return f"(uint64_t)&{self.symbols[operand]}"
        raise Failure(f"operand {operand}")

    def put(self, register, expression, kind):
        """An assignment; a value narrower than the register is extended by the sign of its type."""
        if register == "_":
            return f"(void)({expression});"
        have = self.type(register)
        if (have[0] == "f") != (kind[0] == "f"):
            expression = f"ptx_as<{ctype(have)}>({expression})"
        elif have != "pred":
            expression = f"({ctype(have)})({ctype(kind)})({expression})"
        return f"{self.name_of(register)} = {expression};"

    def address(self, operand, space=""):
        """The C++ of [base+offset], as a number."""
        m = re.fullmatch(r"\[\s*([^\]+\s]+)\s*(?:\+\s*(-?\d+))?\s*\]", operand)
        if not m:
            raise Failure(f"address {operand}")
        if m[1][0] == "%" and self.type(m[1]) not in ("b64", "u64", "s64"):
            raise Failure(f"address {operand}: {space or 'generic'} addresses of 32 bits")
        return f"({self.value(m[1], 'u64')} + (int64_t){m[2] or 0})"

    # --- instructions ---

    def memory(self, words, operands):
        """Loads and stores. A vector is one access of its whole width, as on a device."""
        kind, volatile = words[-1], "volatile " if "volatile" in words else ""
        load = words[0] == "ld"
        at, registers = (operands[1], operands[0]) if load else (operands[0], operands[1])
        registers = comma(registers.strip("{}"))
        n = int(next((w[1:] for w in words if w in ("v2", "v4")), "1"))
        if n != len(registers):
            raise Failure("vector")
        if "param" in words:
            if n > 1:
                return " ".join(self.put(
                    r, f"ptx_param<{ctype(kind)}>((const char*){self.address(at)} + {i * width(kind) // 8})", kind)
                                for i, r in enumerate(registers))
            return self.put(registers[0], f"ptx_param<{ctype(kind)}>((const void*){self.address(at)})", kind)
        whole = ctype(kind) if n == 1 else {128: "unsigned __int128"}.get(n * width(kind), f"uint{n * width(kind)}_t")
        cell = f"*({'const ' if load else ''}{volatile}{whole}*){self.address(at)}"
        if n == 1:
            return self.put(registers[0], cell, kind) if load else f"{cell} = {self.value(registers[0], kind)};"
        part = unsigned(kind)
        if load:
            parts = (self.put(r, f"x_ >> {i * width(kind)}", part) for i, r in enumerate(registers))
            return f"{{ {whole} x_ = {cell}; {' '.join(parts)} }}"
        parts = (f"({whole}){self.value(r, part)} << {i * width(kind)}" for i, r in enumerate(registers))
        return f"{cell} = {' | '.join(parts)};"

    def move(self, words, operands):
        kind = words[-1]
        for side, other in (operands, operands[::-1]):
            if not side.startswith("{"):
                continue
            registers = comma(side.strip("{}"))
            part = f"u{width(kind) // len(registers)}"
            if side is operands[0]:
                parts = (self.put(r, f"x_ >> {i * width(part)}", part) for i, r in enumerate(registers))
                return f"{{ uint64_t x_ = {self.value(other, unsigned(kind))}; {' '.join(parts)} }}"
            parts = (f"(uint64_t){self.value(r, part)} << {i * width(part)}" for i, r in enumerate(registers))
            return self.put(other, " | ".join(parts), unsigned(kind))
        return self.put(operands[0], self.value(operands[1], kind), kind)

    def convert(self, words, operands):
        to, of = words[-2], words[-1]
        value = self.value(operands[1], of)
        rounding = {(False, False): [], (True, False): ["rzi"], (False, True): ["rn"],
                    (True, True): ["rn"] if to < of else []}
        if words[1:-2] != rounding[of[0] == "f", to[0] == "f"]:
            raise Failure("this rounding")
        if of[0] == "f" and to[0] != "f":
            value = f"ptx_truncate<{ctype(to)}>({value})"
        return self.put(operands[0], f"({ctype(to)})({value})", to)

    def arithmetic(self, words, operands):
        op, kind = words[0], words[-1]
        a, b = operands[1], operands[2]
        if kind[0] == "f":
            if op in ("add", "sub", "mul") and set(words[1:-1]) <= {"rn"}:
                return self.put(operands[0], f"{self.value(a, kind)} {dict(add='+', sub='-', mul='*')[op]} "
                                             f"{self.value(b, kind)}", kind)
            if op == "fma" and words[1] == "rn":
                return self.put(operands[0],
                                f"__builtin_fma{'f' if kind == 'f32' else ''}("
                                f"{', '.join(self.value(o, kind) for o in operands[1:])})", kind)
            raise Failure("this rounding")
        if op in ("add", "sub") and len(words) == 2:
            u = unsigned(kind)                                    # where signed numbers would overflow
            return self.put(operands[0], f"{self.value(a, u)} {'+' if op == 'add' else '-'} {self.value(b, u)}", kind)
        if op not in ("mul", "mad"):
            raise Failure("this kind")
        big, u = f"{kind[0]}{2 * width(kind)}", unsigned(kind)
        product, kind = {
            "lo": (f"1u * {self.value(a, u)} * {self.value(b, u)}", kind),
            "hi": (f"ptx_mul_hi({self.value(a, kind)}, {self.value(b, kind)})", kind),
            "wide": (f"({ctype(big)}){self.value(a, kind)} * ({ctype(big)}){self.value(b, kind)}" if width(kind) < 64
                     else "", big),
        }[words[1]]
        third = f" + {self.value(operands[3], unsigned(kind))}" if op == "mad" else ""
        return self.put(operands[0], f"({ctype(unsigned(kind))})({product}){third}", kind)

    def atomic(self, words, operands):
        kind = words[-1]
        op = next(w for w in words[1:] if w in ("min", "max") or w in ATOMICS)
        if op in ("min", "max"):
            code = ("S" if kind[0] == "s" else "") + op.upper()
        else:
            code = "ADD_REAL" if kind[0] == "f" else ATOMICS[op]
        destination, *rest = operands if words[0] == "atom" else ["_", *operands]
        bits = unsigned(kind)
        more = self.value(rest[2], bits) if len(rest) > 2 else "0"
        call = (f"cudasim_atomic(CUDASIM_{code}, {width(kind) // 8}, (void*){self.address(rest[0])}, "
                f"{self.value(rest[1], bits)}, {more})")
        return self.put(destination, f"({ctype(bits)})({call})", bits)

    def shuffle(self, words, operands):
        destination, _, found = operands[0].partition("|")
        if found:
            self.unread.add(found.strip())
        v, lane, c, mask = (self.value(o, "u32") for o in operands[1:])
        return self.put(destination.strip(), f"ptx_shfl(PTX_{words[2].upper()}, {v}, {lane}, {c}, {mask}, {self.line})",
                        "u32")

    def vote(self, words, operands):
        p, mask = self.value(operands[1], "pred"), self.value(operands[2], "u32")
        if words[2] == "all":
            return self.put(operands[0], f"ptx_ballot(!({p}), {mask}, {self.line}) == 0", "pred")
        ballot = f"ptx_ballot({p}, {mask}, {self.line})"
        return self.put(operands[0], *((ballot, "u32") if words[2] == "ballot" else (f"{ballot} != 0", "pred")))

    def barrier(self, words, operands):
        """bar.sync 0, bar.red.OP 0 and bar.warp.sync."""
        if words[1] == "warp":
            return f"cudasim_warp(CUDASIM_SYNC, {self.value(operands[0], 'u32')}, 0, 0, 32, {self.line});"
        if words[1] == "sync" and operands == ["0"]:
            return f"cudasim_barrier({self.line}, 0);"
        if words[1] != "red" or operands[1] != "0":
            raise Failure("this barrier")
        p = self.value(operands[2], "pred")
        count = f"cudasim_barrier({self.line}, {'!' if words[2] == 'and' else ''}({p}))"
        expression = {"or": f"{count} != 0", "and": f"{count} == 0", "popc": count}[words[2]]
        return self.put(operands[0], expression, words[-1])

    def compare(self, words, operands):
        kind = words[-1]
        if len(words) != 3 or (kind[0] == "f" and words[1] == "ne") or (kind[0] != "f" and words[1] == "neu"):
            raise Failure("this comparison")
        if kind[0] == "f" and words[1] in UNORDERED:
            return self.put(operands[0], f"!({self.value(operands[1], kind)} {UNORDERED[words[1]]} "
                                         f"{self.value(operands[2], kind)})", "pred")
        return self.put(operands[0],
                        f"{self.value(operands[1], kind)} {COMPARE[words[1]]} {self.value(operands[2], kind)}", "pred")

    def binary(self, words, operands):
        kind = words[-1]
        a, b = self.value(operands[1], kind), self.value(operands[2], kind)
        n = self.value(operands[2], "u32") if words[0] in ("shl", "shr") else ""
        expression = {
            "and": f"{a} & {b}", "or": f"{a} | {b}", "xor": f"{a} ^ {b}", "div": f"ptx_div({a}, {b})",
            "rem": f"ptx_rem({a}, {b})",
            "min": f"{a} < {b} ? {a} : {b}", "max": f"{a} > {b} ? {a} : {b}", "shl": f"ptx_shl({a}, {n})",
            "shr": f"ptx_shr({a}, {n})"}[words[0]]
        if kind[0] == "f" and words[0] in ("min", "max") or "approx" in words or "full" in words:
            raise Failure("this rounding")
        return self.put(operands[0], expression, kind)

    def insert(self, words, operands):
        kind = unsigned(words[-1])
        field = [self.value(o, kind) for o in operands[1:3]] + [self.value(o, "u32") for o in operands[3:]]
        return self.put(operands[0], f"ptx_bfi({', '.join(field)})", kind)

    def unary(self, words, operands):
        kind = words[-1]
        a = self.value(operands[1], kind)
        expression = {"not": f"!{a}" if kind == "pred" else f"~{a}",
                      "neg": f"-{a}" if kind[0] == "f" else f"0 - {self.value(operands[1], unsigned(kind))}",
                      "abs": f"{a} < 0 ? 0 - {self.value(operands[1], unsigned(kind))} : {a}" if kind[0] == "s" else "",
                      "popc": f"__builtin_popcountll({a})", "clz": f"ptx_clz({a})", "bfind": f"ptx_shiftamt({a})",
                      "brev": f"ptx_brev({a})",
                      "cvta": a}[words[0]]
        if not expression or words[0] == "bfind" and (words[1] != "shiftamt" or kind[0] != "u"):
            raise Failure("this kind")
        return self.put(operands[0], expression, "u32" if words[0] in ("popc", "clz", "bfind") else kind)

    def instruction(self, opcode, operands):
        words = opcode.split(".")
        if words[0] in ("ret", "exit"):
            return "return;"
        if words[0] == "bra":
            return f"goto {self.name_of(operands[0])};"
        if words[0] == "trap":
            return f"cudasim_trap({self.line});"
        if words[0] in ("membar", "fence"):
            return '__asm__ volatile("" ::: "memory");'
        if words[0] == "selp":
            kind = words[-1]
            yes, no = self.value(operands[1], kind), self.value(operands[2], kind)
            choice = f"{self.value(operands[3], 'pred')} ? {yes} : {no}"
            return self.put(operands[0], choice, kind)
        if words[0] == "match" and words[1] == "any":
            return self.put(operands[0], f"ptx_match({self.value(operands[1], unsigned(words[-1]))}, "
                                         f"{self.value(operands[2], 'u32')}, {self.line})", "u32")
        if words[0] not in INSTRUCTIONS:
            raise Failure("this instruction")
        return INSTRUCTIONS[words[0]](self, words, operands)

    # --- declarations and the body ---

    def declare(self, text):
        kind, names = re.fullmatch(r"\.reg\s+\.(\w+)\s+(.*)", text, re.S).groups()
        made = []
        for name in comma(names):
            if m := re.fullmatch(r"(%\w+?)<(\d+)>", name):
                self.scopes[-1][m[1]] = kind
                made += [f"{self.name_of(m[1])}{i}" for i in range(int(m[2]))]
            else:
                self.scopes[-1][name] = kind
                made.append(self.name_of(name))
        return f"{ctype(kind)} {', '.join(made)};"

    def variable(self, text):
        m = re.fullmatch(r"\.(shared|local)\s+\.align\s+(\d+)\s+\.b8\s+(\w+)\[(\d+)\]", text)
        if not m:
            raise Failure(text)
        space, align, name, size = m.groups()
        self.symbols[name] = name
        cell = f"alignas({align}) %schar {name}[{size}];"
        if space == "local":
            return cell % ""
        self.shared.append('extern "C" { CUDASIM_HIDDEN %s }' % (cell % "thread_local "))
        return ""

    def statement(self, text):
        if text.startswith(".reg"):
            return self.declare(text)
        if text.startswith((".shared", ".local")):
            return self.variable(text)
        if text.startswith((".pragma", ".loc")):
            return ""
        guard = ""
        if m := re.match(r"@(!?)(%\w+)\s+", text):
            guard, text = f"if ({m[1]}{self.value(m[2], 'pred')}) ", text[m.end():]
        opcode, _, operands = " ".join(text.split()).partition(" ")
        made = self.instruction(opcode, comma(operands))
        return f"{guard}{{ {made} }}" if guard else made

    def translate(self, path, body, line):
        """Writes the function. Each statement says which line of the PTX it is, for findings and barriers."""
        at = 0
        for m in re.finditer(r"\s*(?:(\$?\w+):(?!:)|(\{)(?!\s*%)|(\})|([^;{}]*(?:\{[^}]*\}[^;{}]*)*);)", body):
            self.line = line + body.count("\n", 0, m.end() - len(m[0].lstrip()))
            if body[at:m.start()].strip():
                raise Failure(f"{path}:{self.line}: {body[at:m.start()].strip()!r}")
            at = m.end()
            label, opening, closing, text = m.groups()
            if label:
                self.out.append(f"{self.name_of(label)}:;")
            elif opening:
                self.scopes.append({})
                self.out.append("{")
            elif closing:
                self.scopes.pop()
                self.out.append("}")
            elif text:
                try:
                    made = self.statement(text)
                except (Failure, KeyError, IndexError, ValueError, TypeError) as e:
                    raise Failure(f"{path}:{self.line}: {text}: not understood: {e}") from e
                if made:
                    self.out += [f'#line {self.line} "{path}"', made]
        if body[at:].strip():
            raise Failure(f"{path}: {body[at:].strip()!r}")
        arguments = ", ".join(f"{kind} {name}" for _, kind, name in self.parameters)
        shapes = [shape for shape, _, _ in self.parameters if shape]
        head = f'extern "C" __attribute__((noinline, used)) void {self.name}({arguments}) {{'
        return [*shapes, *self.shared, head, *self.out, "}", f"CUDASIM_KERNEL({self.name})"]


INSTRUCTIONS = {
    **dict.fromkeys(("ld", "st"), Kernel.memory),
    **dict.fromkeys(("add", "sub", "mul", "mad", "fma"), Kernel.arithmetic),
    **dict.fromkeys(("atom", "red"), Kernel.atomic), **dict.fromkeys(("bar", "barrier"), Kernel.barrier),
    **dict.fromkeys(("and", "or", "xor", "div", "rem", "min", "max", "shl", "shr"), Kernel.binary),
    **dict.fromkeys(("not", "neg", "abs", "popc", "clz", "bfind", "brev", "cvta"), Kernel.unary),
    "bfi": Kernel.insert, "mov": Kernel.move, "cvt": Kernel.convert, "setp": Kernel.compare, "shfl": Kernel.shuffle,
    "vote": Kernel.vote,
}


def translate(path):
    """Returns the C++ of a PTX file. Variables of the module are not understood: a kernel that names one fails."""
    text = re.sub(r"//[^\n]*", "", open(path).read())
    dynamic = {
        name: "cudasim_dynamic_shared" for name in re.findall(r"^\.extern\s+\.shared\s.*?(\w+)\[\];", text, re.M)}
    out = ['#include "cuda_env_ptx.h"',
           'extern "C" { extern CUDASIM_HIDDEN thread_local char cudasim_dynamic_shared[]; }']
    if m := re.search(r"\.func\b", text):
        raise Failure(
            f"{path}:{text.count(chr(10), 0, m.start()) + 1}: functions are not understood: make them __forceinline__")
    for m in re.finditer(r"\.entry\s+(\w+)\s*\(([^)]*)\)([^{]*)\{", text):
        depth, end = 1, m.end()
        while depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        out += Kernel(m[1], m[2], dynamic).translate(path, text[m.end():end - 1], text.count("\n", 0, m.end()) + 1)
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    try:
        sys.stdout.write(translate(sys.argv[1]))
    except Failure as e:
        sys.exit(str(e))
