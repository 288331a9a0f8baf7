/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tap.h: write a test as a C program.
 *
 *	#include "tap.h"
 *
 *	int main(void)
 *	{
 *		tap_plan(2);
 *		tap_ok(1 + 1 == 2, "one and one");
 *		tap_eq(read(fd, buffer, 4), 4, "read gives four bytes");
 *		return tap_finish();
 *	}
 *
 * tap_plan(N) comes first and N is a literal: the runner reads it from the source.  A failed result
 * prints the place, what was expected and what came.  tap_defer() puts a function on the cleanup
 * stack, which runs from the top when the program ends by exit() or by returning from main().  Only
 * one thread, of the process that made the plan, may use these functions.  Exit status: 0 all well,
 * 1 a failure, 4 all skipped.
 */
#ifndef TAP_H
#define TAP_H

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KSFT_SKIP 4
#define TAP_DEFER_MAX 64
#define TAP_PRINTF(at, first) __attribute__((format(printf, at, first)))

static struct {
	int planned, count, failed, deferred;
	pid_t owner;			/* children do not run the cleanup */
	struct {
		void (*run)(void *argument);
		void *argument;
	} stack[TAP_DEFER_MAX];
} tap;

static inline void tap_cleanup(void)
{
	if (getpid() != tap.owner)
		return;
	while (tap.deferred > 0) {
		tap.deferred--;
		tap.stack[tap.deferred].run(tap.stack[tap.deferred].argument);
	}
}

static inline void tap_plan(int planned)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	tap.planned = planned;
	tap.owner = getpid();
	atexit(tap_cleanup);
	printf("TAP version 13\n1..%d\n", planned);
}

/* A diagnostic line. */
TAP_PRINTF(1, 2) static inline void tap_diag(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fputs("# ", stdout);
	vprintf(format, arguments);
	putchar('\n');
	va_end(arguments);
}

/* One result; returns whether it passed. */
TAP_PRINTF(2, 3) static inline bool tap_result(bool passed, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	tap.count++;
	tap.failed += !passed;
	printf("%s %d ", passed ? "ok" : "not ok", tap.count);
	vprintf(format, arguments);
	putchar('\n');
	va_end(arguments);
	return passed;
}

/* Nothing after this makes sense; what has no result yet counts as failed. */
TAP_PRINTF(1, 2) __attribute__((noreturn)) static inline void tap_bail(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fputs("Bail out! ", stdout);
	vprintf(format, arguments);
	putchar('\n');
	va_end(arguments);
	exit(1);
}

static inline void tap_defer(void (*run)(void *argument), void *argument)
{
	if (tap.deferred == TAP_DEFER_MAX)
		tap_bail("more than %d cleanups", TAP_DEFER_MAX);
	tap.stack[tap.deferred].run = run;
	tap.stack[tap.deferred].argument = argument;
	tap.deferred++;
}

static inline bool tap_ok_at(bool passed, const char *text, const char *file, int line, const char *name)
{
	if (!tap_result(passed, "%s", name)) {
		tap_diag("%s:%d", file, line);
		tap_diag("expected: %s", text);
		tap_diag("got:      false");
	}
	return passed;
}

static inline bool tap_eq_at(intmax_t got, intmax_t expected, int error, const char *file, int line, const char *name)
{
	bool passed = got == expected;

	if (!tap_result(passed, "%s", name)) {
		tap_diag("%s:%d", file, line);
		tap_diag("expected: %" PRIdMAX " (0x%" PRIxMAX ")", expected, (uintmax_t)expected);
		tap_diag("got:      %" PRIdMAX " (0x%" PRIxMAX ")", got, (uintmax_t)got);
		if (got == -1)
			tap_diag("errno:    %d (%s)", error, strerror(error));
	}
	return passed;
}

static inline bool tap_str_at(const char *got, const char *expected, const char *file, int line, const char *name)
{
	bool passed = got && expected ? !strcmp(got, expected) : got == expected;

	if (!tap_result(passed, "%s", name)) {
		tap_diag("%s:%d", file, line);
		tap_diag("expected: %s", expected ? expected : "(null)");
		tap_diag("got:      %s", got ? got : "(null)");
	}
	return passed;
}

static inline bool tap_mem_at(const void *got, const void *expected, size_t size, const char *file, int line,
			      const char *name)
{
	const unsigned char *a = got, *b = expected;
	size_t i = 0;

	while (i < size && a[i] == b[i])
		i++;
	if (!tap_result(i == size, "%s", name)) {
		tap_diag("%s:%d", file, line);
		tap_diag("expected: 0x%02x at byte %zu of %zu", b[i], i, size);
		tap_diag("got:      0x%02x", a[i]);
	}
	return i == size;
}

/* These evaluate each argument once and return whether the result passed. */
#define tap_ok(condition, name) tap_ok_at(condition, #condition, __FILE__, __LINE__, name)
#define tap_str(got, expected, name) tap_str_at(got, expected, __FILE__, __LINE__, name)
#define tap_mem(got, expected, size, name) tap_mem_at(got, expected, size, __FILE__, __LINE__, name)
#define tap_eq(got, expected, name) \
	({ \
		intmax_t tap_got = (got); \
		int tap_errno = errno; \
		tap_eq_at(tap_got, expected, tap_errno, __FILE__, __LINE__, name); \
	})

/* This one result is skipped. */
static inline void tap_skip(const char *name, const char *reason)
{
	tap.count++;
	printf("ok %d %s # SKIP %s\n", tap.count, name, reason);
}

/* Nothing can be tested here; allowed before the first result. */
__attribute__((noreturn)) static inline void tap_skip_all(const char *reason)
{
	printf("# SKIP %s\n", reason);
	exit(KSFT_SKIP);
}

/* The exit status for main(). */
static inline int tap_finish(void)
{
	if (tap.count != tap.planned) {
		tap_diag("planned %d results, gave %d", tap.planned, tap.count);
		return 1;
	}
	return tap.failed ? 1 : 0;
}

#endif /* TAP_H */
