/* SPDX-License-Identifier: GPL-2.0 */
/* The events of tracepoints treadle:*, through an instance of tracefs of the test's own. */
#ifndef TREADLE_KSELFTEST_TRACEFS_H
#define TREADLE_KSELFTEST_TRACEFS_H

#include "treadle.h"

#include <sys/mount.h>

#define TRACEFS	 "/sys/kernel/tracing"
#define INSTANCE TRACEFS "/instances/treadle-test"
#define EVENTS	 512

struct event {
	char name[24]; /* without treadle_ */
	char text[400];
};

static struct event traced[EVENTS];
static int nr_traced;

/* All events are on. False: the kernel has no tracefs. */
static inline bool trace_begin(void)
{
	if (access(TRACEFS "/instances", F_OK) != 0 &&
	    mount("tracefs", TRACEFS, "tracefs", 0, NULL) != 0)
		return false;
	rmdir(INSTANCE); /* of a test that failed */
	need(mkdir(INSTANCE, 0700) == 0);
	write_to(INSTANCE "/events/treadle/enable", "1");
	return true;
}

static inline void trace_end(void)
{
	if (access(INSTANCE, F_OK) != 0)
		return;
	write_to(INSTANCE "/events/treadle/enable", "0");
	need(rmdir(INSTANCE) == 0);
}

/* Reads the events so far. */
static inline void trace_read(void)
{
	FILE *file = fopen(INSTANCE "/trace", "r");
	char line[600];

	need(file);
	nr_traced = 0;
	while (fgets(line, sizeof(line), file)) {
		const char *at = strstr(line, ": treadle_"), *end = at ? strchr(at + 2, ':') : NULL;
		struct event *e = &traced[nr_traced];

		if (!end)
			continue;
		need(nr_traced < EVENTS);
		at += strlen(": treadle_");
		snprintf(e->name, sizeof(e->name), "%.*s", (int)(end - at), at);
		/* a blank before each name */
		snprintf(e->text, sizeof(e->text), "%s", end + 1);
		nr_traced++;
	}
	fclose(file);
}

/* The text of a field, up to the next blank; NULL: the event has none. */
static inline const char *field(const struct event *e, const char *name)
{
	char key[40];
	const char *at;

	snprintf(key, sizeof(key), " %s=", name);
	at = strstr(e->text, key);
	return at ? at + strlen(key) : NULL;
}

static inline long long value(const struct event *e, const char *name)
{
	const char *text = field(e, name);

	need(text);
	return strtoll(text, NULL, 0);
}

static inline bool is(const struct event *e, const char *name, const char *text)
{
	const char *is = field(e, name);
	size_t len = strlen(text);

	return is && strncmp(is, text, len) == 0 && (is[len] == ' ' || is[len] == '\n');
}

/* The next event @name from *@from on with that value of that field; *@from: behind it. */
static inline const struct event *find(int *from, const char *name, const char *key, long long want)
{
	for (int i = *from; i < nr_traced; i++) {
		const struct event *e = &traced[i];

		if (strcmp(e->name, name) == 0 && field(e, key) && value(e, key) == want) {
			*from = i + 1;
			return e;
		}
	}
	note("no %s with %s=%lld, from %d on", name, key, want, *from);
	for (int i = 0; i < nr_traced; i++)
		note("%s:%s", traced[i].name, traced[i].text);
	need(false);
	return NULL;
}

static inline bool has(const char *name, const char *key, long long want)
{
	for (int i = 0; i < nr_traced; i++)
		if (strcmp(traced[i].name, name) == 0 && field(&traced[i], key) &&
		    value(&traced[i], key) == want)
			return true;
	return false;
}

#endif
