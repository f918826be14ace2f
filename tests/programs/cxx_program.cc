// SPDX-License-Identifier: MIT
//
// cxx_program.cc - a C++ program as allocators meet them: exceptions that cross threads, objects with
// thread_local lifetime whose destructors allocate and free what other threads made, over-aligned types,
// containers, polymorphic graphs. Prints checksums that depend on nothing but this text.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace {

constexpr int kThreads = 8;
constexpr int kRounds = 40;

std::uint64_t mix(std::uint64_t seed, std::uint64_t value)
{
    return (seed ^ value) * 0x9E3779B97F4A7C15u + (seed >> 29);
}

std::uint64_t mix(std::uint64_t seed, const std::string &text)
{
    for (const char c : text)
        seed = mix(seed, static_cast<unsigned char>(c));
    return seed;
}

// What thread_local destructors leave behind, for the main thread to check and free.
std::mutex left_lock;
std::vector<std::unique_ptr<std::string>> left;

// Its destructor runs while the thread ends: it frees what the thread made and allocates once more.
struct ThreadState {
    std::map<int, std::string> names;
    std::vector<std::unique_ptr<std::string>> owned;

    ~ThreadState()
    {
        std::uint64_t sum = 1;
        for (const auto &entry : names)
            sum = mix(sum, entry.second);
        owned.clear();
        auto text = std::make_unique<std::string>(200, 'x');
        *text += std::to_string(sum);
        const std::lock_guard<std::mutex> guard(left_lock);
        left.push_back(std::move(text));
    }
};

thread_local ThreadState state;

struct alignas(128) Wide {
    unsigned char bytes[384];
};

struct Shape {
    virtual ~Shape() = default;
    virtual std::uint64_t area() const = 0;
};

struct Square final : Shape {
    explicit Square(std::uint64_t s) : side(s) {}
    std::uint64_t area() const override { return side * side; }
    std::uint64_t side;
};

struct Group final : Shape {
    std::uint64_t area() const override
    {
        std::uint64_t sum = 0;
        for (const auto &part : parts)
            sum += part->area();
        return sum;
    }
    std::vector<std::shared_ptr<Shape>> parts;
    std::string label;
};

struct Failure : std::runtime_error {
    Failure(const std::string &what, std::vector<std::string> d) : std::runtime_error(what), details(std::move(d)) {}
    std::vector<std::string> details;
};

// Throws through frames that own memory.
std::uint64_t descend(int depth, int number)
{
    const std::string local(static_cast<std::size_t>(depth * 17 + number % 50), 'd');
    const auto owned = std::make_unique<std::vector<std::string>>(3, local);
    if (depth == 0)
        throw Failure("number " + std::to_string(number), {local, "deep", std::string(300, 'z')});
    return descend(depth - 1, number) + owned->size();
}

std::uint64_t work(int thread)
{
    std::uint64_t sum = static_cast<std::uint64_t>(thread) + 1;
    for (int round = 0; round < kRounds; round++) {
        for (int i = 0; i < 60; i++) {
            state.names[i] = "name " + std::to_string(thread) + ' ' + std::to_string(round * i);
            state.owned.push_back(std::make_unique<std::string>(static_cast<std::size_t>(i * 13), 'o'));
        }

        const auto root = std::make_shared<Group>();
        for (std::uint64_t i = 0; i < 50; i++) {
            auto group = std::make_shared<Group>();
            for (std::uint64_t j = 0; j < 20; j++)
                group->parts.push_back(std::make_shared<Square>(i + j));
            group->label = std::to_string(i);
            root->parts.push_back(std::move(group));
        }
        sum = mix(sum, root->area());

        std::unordered_map<std::string, std::vector<int>> table;
        for (int i = 0; i < 500; i++)
            table["key" + std::to_string(i % 90)].push_back(i);
        for (int i = 0; i < 90; i++)
            sum = mix(sum, table.at("key" + std::to_string(i)).size());

        std::vector<std::unique_ptr<Wide>> wide;
        for (int i = 0; i < 30; i++) {
            wide.push_back(std::make_unique<Wide>());
            if (reinterpret_cast<std::uintptr_t>(wide.back().get()) % alignof(Wide) != 0)
                throw std::logic_error("an over-aligned object is not aligned");
            wide.back()->bytes[i] = static_cast<unsigned char>(i);
            sum = mix(sum, wide.back()->bytes[i]);
        }

        try {
            sum += descend(12, round);
        } catch (const Failure &failure) {
            sum = mix(sum, failure.what());
            for (const auto &detail : failure.details)
                sum = mix(sum, detail);
        }
    }
    if (thread % 3 == 2)
        throw Failure("thread " + std::to_string(thread) + ' ' + std::to_string(sum), {std::string(1000, 't')});
    return sum;
}

} // namespace

int main()
{
    for (int generation = 0; generation < 12; generation++) {
        std::vector<std::future<std::uint64_t>> futures;
        std::vector<std::thread> threads;
        for (int i = 0; i < kThreads; i++) {
            std::packaged_task<std::uint64_t()> task([i] { return work(i); });
            futures.push_back(task.get_future());
            threads.emplace_back(std::move(task));
        }
        // Joined before the results are looked at: the exception objects outlive their threads.
        for (auto &thread : threads)
            thread.join();
        for (auto &future : futures) {
            try {
                std::printf("%llu\n", static_cast<unsigned long long>(future.get()));
            } catch (const Failure &failure) {
                std::printf("%s, %zu details\n", failure.what(), failure.details.size());
            }
        }
    }

    std::vector<std::string> texts;
    for (const auto &text : left)
        texts.push_back(*text);
    left.clear();
    std::sort(texts.begin(), texts.end());
    std::uint64_t sum = 1;
    for (const auto &text : texts)
        sum = mix(sum, text);
    std::printf("%zu left behind, %llu\n", texts.size(), static_cast<unsigned long long>(sum));

    // A large vector that grows across every kind of block.
    std::vector<std::uint64_t> grown;
    for (std::uint64_t i = 0; i < 6000000; i++)
        grown.push_back(mix(i, i));
    sum = 0;
    for (const auto value : grown)
        sum ^= value;
    std::printf("%llu\n", static_cast<unsigned long long>(sum));
    return 0;
}
