// SPDX-License-Identifier: GPL-2.0
/*
 * Sequences that the model enumerates (lib/sequences.py), and random ones.
 *
 * Many sequences make one story, each in a folder of its own: first the first operation of
 * each, then the second, and so on. So a story's crash images serve all of them, and what one
 * sequence makes durable meets all others halfway. Those that sync are told together.
 */
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <stdexcept>

#include "tests.hpp"

namespace uhsfs::replay {

namespace {

struct Sequence {
    std::string setup;
    std::vector<Op> ops;
    [[nodiscard]] bool syncs() const {
        return std::ranges::any_of(ops, [](const Op &op) { return op.kind == Op::Kind::sync; });
    }
};

std::vector<Sequence> read_sequences(const std::string &file) {
    std::ifstream stream(file);
    std::vector<Sequence> sequences;
    std::string line;

    while (std::getline(stream, line)) {
        const std::size_t space = line.find(' ');
        if (space == std::string::npos)
            throw std::runtime_error(fmt::format("{}: '{}'", file, line));
        sequences.push_back(
            {.setup = line.substr(0, space), .ops = parse_ops(line.substr(space + 1))});
    }
    if (sequences.empty())
        throw std::runtime_error(file + ": no sequence");
    return sequences;
}

std::string in_words(const std::vector<Op> &ops) {
    std::string text;
    for (const Op &op : ops)
        text += op.text() + "; ";
    return text;
}

// What the model begins with.
std::vector<Op> setup_of(const std::string &name) {
    if (name == "S1")
        return parse_ops(
            "create a; write a 0 4096; create b; write b 0 4096; mkdir p; mkdir q; create p/c; "
            "write p/c 0 4096");
    if (name == "S2")
        return parse_ops(
            "create a; write a 0 4096; link a b; create t; write t 0 4096; mkdir p; mkdir p/q; "
            "create p/q/c; write p/q/c 0 4096");
    if (name == "S3")
        return parse_ops("create a; write a 0 4096; mkdir p");
    throw std::runtime_error("no setup " + name);
}

Op within(const std::string &folder, Op op) {
    if (op.kind == Op::Kind::sync)
        return op;
    if (op.kind == Op::Kind::close) {
        op.path = folder + "/";
        return op;
    }
    op.path = op.path == "." ? folder : folder + "/" + op.path;
    if (!op.to.empty())
        op.to = folder + "/" + op.to;
    return op;
}

void tell_together(Theatre &theatre, const std::vector<const Sequence *> &sequences,
                   const CrashOptions &options, Results &results) {
    Story story(theatre, results);
    std::vector<Op> setup;
    std::vector<Op> ops;
    std::size_t longest = 0;

    for (std::size_t i = 0; i < sequences.size(); i++) {
        const std::string folder = fmt::format("s{}", i);
        setup.push_back({.kind = Op::Kind::mkdir, .path = folder});
        for (const Op &op : setup_of(sequences[i]->setup))
            setup.push_back(within(folder, op));
        longest = std::max(longest, sequences[i]->ops.size());
    }
    story.setup(setup);
    for (std::size_t step = 0; step < longest; step++)
        for (std::size_t i = 0; i < sequences.size(); i++)
            if (step < sequences[i]->ops.size())
                ops.push_back(within(fmt::format("s{}", i), sequences[i]->ops[step]));
    story.tell(ops);
    story.replay(options);
    for (std::size_t i = 0; results.failed() && i < sequences.size(); i++)
        if (results.mentions(fmt::format(" s{}/", i)))
            results.problem(
                fmt::format("  s{} is {} {}", i, sequences[i]->setup, in_words(sequences[i]->ops)));
}

// ---- random stories -----------------------------------------------------------------------------

class Teller {
public:
    Teller(World &world, Random &random) : world_(world), random_(random) {}

    // An operation that is possible now.
    Op next() {
        for (;;) {
            const Op op = any();
            if (world_.can(op))
                return op;
        }
    }

private:
    unsigned below(std::uint64_t limit) { return static_cast<unsigned>(random_() % limit); }

    template <typename T>
    T one_of(const std::vector<T> &all) {
        return all.empty() ? T() : all[below(all.size())];
    }

    std::string any_dir() {
        std::vector<std::string> dirs = world_.paths(true);
        dirs.emplace_back("");
        return one_of(dirs);
    }

    std::string any_name() {
        const std::string dir = any_dir();
        std::string name(1, static_cast<char>('a' + below(8)));
        // Long names leave less room in a slot.
        if (below(6) == 0)
            name += std::string(200, 'n');
        return dir.empty() ? name : dir + "/" + name;
    }

    std::uint64_t any_size() {
        static const std::vector<std::uint64_t> sizes = {1, 100, 400, 4096, 5000, 12288, 30000};
        return one_of(sizes);
    }

    Op writing(const std::string &file) {
        Op op{.kind = Op::Kind::write, .path = file, .size = any_size()};
        if (file.empty() || !world_.can(op))
            return {.kind = Op::Kind::create, .path = any_name()};
        const std::uint64_t size = world_.size(file);
        // Mostly behind what there is, sometimes within, sometimes far away.
        op.at = below(3) != 0 ? size : below(size + 1);
        if (below(8) == 0)
            op.at += 1U << 16U;
        if (size > 1U << 17U)
            op.at = 0;
        return op;
    }

    Op truncating(const std::string &file) {
        const Op op{.kind = Op::Kind::truncate, .path = file, .size = any_size()};
        return op;
    }

    Op renaming() {
        std::vector<std::string> all = world_.paths(false);
        const std::vector<std::string> dirs = world_.paths(true);
        all.insert(all.end(), dirs.begin(), dirs.end());
        Op op{.kind = Op::Kind::rename, .path = one_of(all), .to = any_name()};
        if (below(2) == 0)
            op.to = one_of(all);
        return op;
    }

    Op any() {
        const std::string file = one_of(world_.paths(false));
        const unsigned what = below(100);
        const bool keep = below(6) == 0;

        if (what < 14)
            return {.kind = Op::Kind::create, .path = any_name()};
        if (what < 34)
            return writing(file);
        if (what < 40)
            return truncating(file);
        if (what < 44)
            return {.kind = Op::Kind::link, .path = file, .to = any_name()};
        if (what < 48)
            return renaming();
        if (what < 58)
            return {.kind = Op::Kind::unlink, .path = file, .keep = keep};
        if (what < 64 && world_.paths(true).size() < 8)
            return {.kind = Op::Kind::mkdir, .path = any_name()};
        if (what < 67)
            return {.kind = Op::Kind::rmdir, .path = any_dir(), .keep = keep};
        if (what < 68)
            return {.kind = Op::Kind::mknod, .path = any_name()};
        if (what < 70)
            return {.kind = Op::Kind::symlink, .path = any_name(), .to = "some/where"};
        if (what < 74)
            return {.kind = Op::Kind::chmod, .path = file, .size = below(0777)};
        if (what < 86)
            return {.kind = Op::Kind::fsync, .path = file};
        if (what < 90)
            return {.kind = Op::Kind::fdatasync, .path = file};
        if (what < 96)
            return {.kind = Op::Kind::fsyncdir, .path = any_dir()};
        if (what < 98)
            return {.kind = Op::Kind::sync};
        return {.kind = Op::Kind::close};
    }

    World &world_;
    Random &random_;
};

void random_story(Theatre &theatre, const TestOptions &options, Random &random, Results &results) {
    constexpr unsigned setup_length = 30;
    constexpr unsigned length = 40;
    Story story(theatre, results);
    Teller teller(story.world(), random);

    story.begin();
    for (unsigned i = 0; i < setup_length; i++)
        story.world().run(teller.next());
    story.end_setup();
    story.begin();
    for (unsigned i = 0; i < length; i++)
        story.world().run(teller.next());
    story.end();
    CrashOptions crashes = options.crashes;
    crashes.seed = random();
    story.replay(crashes);
    crashes.most /= 2;
    if (!results.failed())
        story.replay_recovery(crashes, 1);
    if (results.failed())
        results.problem(story.world().story());
}

// Those that sync apart from the others.
std::vector<std::vector<const Sequence *>> group(const std::vector<Sequence> &sequences,
                                                 Random &random) {
    constexpr std::size_t together = 32;
    std::vector<std::vector<const Sequence *>> groups;
    std::vector<const Sequence *> order;

    for (const Sequence &sequence : sequences)
        order.push_back(&sequence);
    std::ranges::shuffle(order, random);
    std::ranges::stable_partition(order, [](const Sequence *one) { return one->syncs(); });
    for (const Sequence *one : order) {
        if (groups.empty() || groups.back().size() == together ||
            groups.back().front()->syncs() != one->syncs())
            groups.emplace_back();
        groups.back().push_back(one);
    }
    return groups;
}

}  // namespace

void test_sequences(const std::string &work, const TestOptions &options, const std::string &file) {
    const std::vector<Sequence> sequences = read_sequences(file);
    Random random(options.crashes.seed);
    const auto groups = group(sequences, random);

    for (const bool shadow : {false, true}) {
        Results results;
        const Shape shape{.shadow = shadow, .slot_size = shadow ? 2048U : 1024U};
        results.begin(fmt::format("{} sequences ({})", sequences.size(), shape.text()));
        try {
            Theatre theatre(shape, work);
            for (std::size_t i = 0; i < groups.size() && !results.failed(); i++)
                if (options.both || (i % 2 == 0) == shadow)
                    tell_together(theatre, groups[i], options.crashes, results);
        } catch (const std::exception &error) {
            results.problem(error.what());
        }
        results.end();
    }
}

void test_random(const std::string &work, const TestOptions &options) {
    Random random(options.crashes.seed);

    for (const Shape &shape :
         {Shape{.shadow = false, .slot_size = 1024}, Shape{.shadow = true, .slot_size = 1024},
          Shape{.shadow = true, .slot_size = 4096}}) {
        Results results;
        results.begin(fmt::format("random operations ({})", shape.text()));
        try {
            Theatre theatre(shape, work);
            for (unsigned i = 0; i < options.count && !results.failed(); i++)
                random_story(theatre, options, random, results);
        } catch (const std::exception &error) {
            results.problem(error.what());
        }
        results.end();
    }
}

}  // namespace uhsfs::replay
