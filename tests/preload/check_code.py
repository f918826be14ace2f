#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""check_code.py COMPILER LIBRARY... - the machine code of the libraries runs on every x86-64 processor.

Holds off: an instruction that the machine which built the library has and an older one does not (SSE3 and later,
AVX, BMI, POPCNT, LZCNT): the program ends by SIGILL, in the middle of malloc(). And objects without a word about
the stack, for which the linker makes that executable.

What is allowed is listed: the instructions of the first x86-64 processors with their SSE2, and cmpxchg16b, which
only the very first lack. tzcnt is the encoding of `rep bsf`, as which those execute it, with the same result for
every word but zero. To begin with the list is tried with instructions that it must refuse.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

SUFFIX = "[bwlq]?"
GENERAL = f"""
    (lea|mov|add|sub|adc|sbb|inc|dec|neg|not|and|or|xor|cmp|test|i?mul|i?div|sh[lr]d?|sa[lr]|ro[lr]|rc[lr]){SUFFIX}
    movabs q? | mov[sz][bwl][wlq] | movs[bwlq] | stos[bwlq]? | scas[bwlq]? | cmps[bwlq]? | lods[bwlq]?
    bt[src]?{SUFFIX} | bs[fr]{SUFFIX} | tzcnt{SUFFIX} | bswap{SUFFIX} | xchg{SUFFIX} | xadd{SUFFIX}
    (push|pop|call|ret|jmp|leave){SUFFIX} | nop[wlq]? | int3 | ud2 | hlt | pause | endbr64 | syscall
    cmpxchg{SUFFIX} | cmpxchg8b | cmpxchg16b | [mls]fence | prefetch(t0|t1|t2|nta)
    (j|set|cmov)(n?[abceglopsz]|n?[abgl]e|p[eo])[wlq]? | cltq | cqto | cltd | cwtl | cwtd | cbtw | sahf | cld | std
    lock | rep[nz]* | data16 | [cdefgs]s | notrack | bnd | rex(\\.[WRXB]+)?
"""
SSE2 = """
    mov(aps|ups|apd|upd|dqa|dqu|ss|sd|d|q|[hl]ps|[hl]pd|hlps|lhps|mskps|mskpd|nti|ntps|ntpd|ntdq|dq2q|q2dq)
    (add|sub|mul|div|sqrt|min|max|cmp[a-z]*|andn?|or|xor|unpck[hl]|shuf|rcp|rsqrt)[ps][sd] | u?comis[sd] | cvtt?[a-z0-9]+
    p(add|sub)(b|w|d|q|sb|sw|usb|usw) | pcmp(eq|gt)[bwd] | punpck[lh](bw|wd|dq|qdq) | pshuf(d|hw|lw)
    psll(w|d|q|dq) | psrl(w|d|q|dq) | psra[wd] | p(or|xor|and|andn) | pack(sswb|ssdw|uswb) | pmovmskb | pmuludq | pmull?h?u?w
    pmaddwd | pavg[bw] | psadbw | pminub | pminsw | pmaxub | pmaxsw | pextrw | pinsrw
"""
PATTERNS = [part.replace(" ", "") for text in (GENERAL, SSE2) for line in text.split("\n") for part in line.split(" | ")]
ALLOWED = re.compile("|".join(f"(?:{pattern})" for pattern in PATTERNS if pattern))

REFUSED = """
    popcnt %rax, %rax
    lzcnt %rax, %rax
    andn %rax, %rax, %rax
    shlx %rax, %rax, %rax
    movbe (%rax), %rax
    pshufb %xmm0, %xmm0
    pminud %xmm0, %xmm0
    haddps %xmm0, %xmm0
    pcmpeqq %xmm0, %xmm0
    vpxor %xmm0, %xmm0, %xmm0
    vmovdqu (%rax), %ymm0
    vmovdqu64 (%rax), %zmm0
    rdfsbase %rax
    crc32 %al, %eax
    packusdw %xmm0, %xmm0
    rdrand %rax
"""


def mnemonics(path):
    """Each mnemonic with its prefixes, and a line that has it."""
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", str(path)], check=True, capture_output=True, text=True).stdout
    found = {}
    for line in text.splitlines():
        match = re.match(r"\s*[0-9a-f]+:\t(\S.*)", line)
        if match and "(bad)" not in line:
            for word in match[1].split("#")[0].split():
                found.setdefault(word, line.strip())
                # A prefix is followed by what it belongs to.
                if not re.fullmatch(r"lock|rep[nz]*|data16|[cdefgs]s|notrack|bnd|rex\S*", word):
                    break
    return found


def refused(path):
    return {word: line for word, line in mnemonics(path).items() if not ALLOWED.fullmatch(word)}


def without_stack_note(path):
    """Objects whose sections do not say that the stack is not executable; of a linked file that is a header."""
    text = subprocess.run(["readelf", "-SW", str(path)], check=True, capture_output=True, text=True).stdout
    objects = re.split(r"^File: ", text, flags=re.M)[1:]
    return [part.splitlines()[0] for part in objects
            if not re.search(r"\.note\.GNU-stack +\S+ +\S+ +\S+ +\S+ +\S+ +\d+ +\d+ +\d+ *$", part, re.M)]


def main():
    compiler, libraries = sys.argv[1], sys.argv[2:]
    faults = 0
    with tempfile.TemporaryDirectory() as directory:
        source, object_file = pathlib.Path(directory, "new.s"), pathlib.Path(directory, "new.o")
        source.write_text(REFUSED)
        subprocess.run([*compiler.split(), "-c", str(source), "-o", str(object_file)], check=True)
        wanted = {line.split()[0] for line in REFUSED.splitlines() if line.strip()}
        missed = wanted - set(refused(object_file))
        if missed:
            print("allowed, and should not be:", *sorted(missed))
            faults += 1
        # An object of the assembler has no word about the stack.
        archive = pathlib.Path(directory, "new.a")
        subprocess.run(["ar", "rcs", str(archive), str(object_file)], check=True)
        if not without_stack_note(archive):
            print("an object without a word about the stack was not seen")
            faults += 1
    for library in libraries:
        if len(mnemonics(library)) < 20:
            print(f"{library}: no code found")
            faults += 1
        for word, line in sorted(refused(library).items()):
            print(f"{library}: {word} is not of the first x86-64 processors: {line}")
            faults += 1
        for name in without_stack_note(library):
            print(f"{name}: says nothing about the stack, or wants it executable")
            faults += 1
    return faults != 0


if __name__ == "__main__":
    sys.exit(main())
