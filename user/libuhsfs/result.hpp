/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * How the toolkit reports what can fail: a Result is a value or an Error, and
 * an Error says which object, what went wrong, the system's reason and what the
 * user can do. Exceptions are for bugs and exhausted memory only.
 */
#pragma once

#include <fmt/format.h>

#include <cerrno>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <type_traits>
#include <utility>

namespace uhsfs {

struct Error {
    int code = 0;         // an errno value; 0 when the system gave no reason
    std::string object;   // a device, file, option or λ; may be empty
    std::string message;  // what went wrong, without a full stop
    std::string hint;     // what to do about it; may be empty

    // "OBJECT: MESSAGE: REASON (hint: HINT)" without the parts that are empty,
    // always one printable line: bytes below space and DEL, which names from an
    // untrusted image may hold, are shown as \xNN.
    [[nodiscard]] std::string to_string() const;
};

template <typename T>
using Result = tl::expected<T, Error>;

// For `return fail(EINVAL, path, "not a uhsfs filesystem");` in any function
// that returns a Result.
[[nodiscard]] tl::unexpected<Error> fail(int code, std::string_view object,
                                         std::string_view message, std::string_view hint = {});

// The same with the present errno.
[[nodiscard]] tl::unexpected<Error> fail_errno(std::string_view object, std::string_view message,
                                               std::string_view hint = {});

// What function() returns, a Result; an exception becomes an error about `object`: ENOMEM for
// exhausted memory. At the border of the library, for work that takes much.
template <typename Function>
auto without_exceptions(std::string_view object, Function function) -> decltype(function()) {
    try {
        return function();
    } catch (const std::bad_alloc &) {
        return fail(ENOMEM, object, "there is not enough memory for this");
    } catch (const std::exception &exception) {
        return fail(0, object, exception.what());
    }
}

namespace detail {

// expected<void>::value() is not for rvalues.
template <typename T, typename E>
T take_value(tl::expected<T, E> &result) {
    if constexpr (!std::is_void_v<T>)
        return std::move(*result);
}

}  // namespace detail

}  // namespace uhsfs

// The value of a Result expression, or return its Error from this function:
// `unique_fd fd = UHSFS_TRY(open_file(path, O_RDONLY));`; of a Result<void>, nothing.
#define UHSFS_TRY(expression)                                                \
    __extension__({                                                          \
        auto uhsfs_try_result = (expression);                                \
        if (!uhsfs_try_result)                                               \
            return tl::make_unexpected(std::move(uhsfs_try_result).error()); \
        ::uhsfs::detail::take_value(uhsfs_try_result);                       \
    })

template <>
struct fmt::formatter<uhsfs::Error> : fmt::formatter<std::string_view> {
    template <typename Context>
    auto format(const uhsfs::Error &error, Context &context) const {
        return fmt::formatter<std::string_view>::format(error.to_string(), context);
    }
};
