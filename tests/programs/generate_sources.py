# SPDX-License-Identifier: MIT
"""Writes tables.c, templates.cc and broken.c into a directory: a program large enough to keep a compiler busy."""

import random
import sys

C_FUNCTIONS = 260
CXX_TYPES = 6


def c_function(number, rng):
    lines = [f"uint64_t function_{number}(uint64_t x, const uint64_t *table)", "{", "    uint64_t y = x;"]
    for _ in range(rng.randrange(6, 20)):
        kind = rng.randrange(4)
        constant = rng.randrange(1, 1 << 32)
        if kind == 0:
            lines.append(f"    y = (y ^ {constant}u) * {constant | 1}u + (y >> {rng.randrange(1, 60)});")
        elif kind == 1:
            lines.append(f"    for (int i = 0; i < {rng.randrange(2, 12)}; i++) y += table[(y + (uint64_t)i) & 63];")
        elif kind == 2:
            lines.append(f"    if (y & {1 << rng.randrange(20)}) y -= x; else y ^= table[{rng.randrange(64)}];")
        else:
            cases = " ".join(f"case {i}: y += {rng.randrange(1000)}; break;" for i in range(8))
            lines.append(f"    switch (y & 7) {{ {cases} default: break; }}")
    if number:
        lines.append(f"    if ((y & 1023) == 5) y += function_{rng.randrange(number)}(y >> 3, table);")
    lines += ["    return y;", "}", ""]
    return "\n".join(lines)


def write_c(directory, rng):
    with open(f"{directory}/tables.c", "w", encoding="utf-8") as out:
        out.write("#include <stdint.h>\n#include <stdio.h>\n#include <string.h>\n\n")
        for number in range(C_FUNCTIONS):
            out.write(c_function(number, rng))
        out.write("uint64_t (*const functions[])(uint64_t, const uint64_t *) = {\n")
        out.write(",\n".join(f"    function_{number}" for number in range(C_FUNCTIONS)))
        out.write("\n};\nconst unsigned function_count = sizeof functions / sizeof functions[0];\n")


def write_cxx(directory, rng):
    with open(f"{directory}/templates.cc", "w", encoding="utf-8") as out:
        out.write(
            """#include <algorithm>
#include <cstdint>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

extern "C" {
extern std::uint64_t (*const functions[])(std::uint64_t, const std::uint64_t *);
extern const unsigned function_count;
}

template <int N> struct Depth { static constexpr std::uint64_t value = Depth<N - 1>::value * 3 + N; };
template <> struct Depth<0> { static constexpr std::uint64_t value = 1; };

template <class List> std::uint64_t fold(const List &list, std::uint64_t seed)
{
    for (auto value : list) seed = (seed << 7 | seed >> 57) ^ value;
    return seed;
}
"""
        )
        for number in range(CXX_TYPES):
            out.write(
                f"""
struct Type{number} {{
    std::string name = "type{number}";
    std::map<std::string, std::vector<std::uint64_t>> values;
    std::variant<int, double, std::string, std::vector<int>> either;
    std::uint64_t mix(std::uint64_t seed)
    {{
        std::unordered_map<std::uint64_t, std::shared_ptr<std::string>> table;
        for (std::uint64_t i = 0; i < {rng.randrange(20, 60)}; i++) {{
            seed = seed * {rng.randrange(1 << 40) | 1}u + i;
            values[name + std::to_string(seed % 7)].push_back(seed);
            table[seed % 31] = std::make_shared<std::string>(std::to_string(seed));
        }}
        either = name;
        std::function<std::uint64_t(std::uint64_t)> step = [&](std::uint64_t x) {{
            return x ^ table.size() ^ Depth<{rng.randrange(100, 400)}>::value;
        }};
        for (auto &[key, list] : values) {{
            std::sort(list.begin(), list.end(), std::greater<>());
            seed = fold(list, step(seed) + key.size());
        }}
        return seed;
    }}
}};
"""
            )
        out.write("\nint main()\n{\n    std::uint64_t table[64];\n")
        out.write("    for (unsigned i = 0; i < 64; i++) table[i] = i * 0x9E3779B97F4A7C15u;\n")
        out.write("    std::uint64_t sum = 1;\n")
        out.write("    for (unsigned i = 0; i < function_count; i++) sum += functions[i](sum, table);\n")
        for number in range(CXX_TYPES):
            out.write(f"    {{ Type{number} t; sum = t.mix(sum); std::cout << t.name << ' ' << sum << '\\n'; }}\n")
        out.write("    std::ostringstream text;\n    text << sum << ' ' << function_count;\n")
        out.write("    std::cout << text.str() << '\\n';\n    return 0;\n}\n")


def write_broken(directory):
    with open(f"{directory}/broken.c", "w", encoding="utf-8") as out:
        for number in range(200):
            out.write(f"int broken_{number}(void) {{ return undeclared_{number}; }}\n")


def main():
    directory = sys.argv[1]
    rng = random.Random(7)
    write_c(directory, rng)
    write_cxx(directory, rng)
    write_broken(directory)


main()
