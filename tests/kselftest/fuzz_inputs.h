/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The random walk of fuzz.c, recorded. An input is a list of steps, as text a line each, "step seed
 * roll=shown …". A new process takes it, so the result is the same each time; if it ends with the
 * line "together", two threads of the process take its steps in turn. Where the kernel reports
 * coverage of the module (KCOV), inputs that reach new code are kept, and mutated.
 */
#ifndef TREADLE_KSELFTEST_FUZZ_INPUTS_H
#define TREADLE_KSELFTEST_FUZZ_INPUTS_H

#include "fuzz_steps.h"

#include <dirent.h>
#include <linux/kcov.h>

#define LONGEST 48
#define PATCHES \
	((int)(sizeof(((struct step *)NULL)->patch) / sizeof(((struct step *)NULL)->patch[0])))
#define TRACE	 (1UL << 18)
#define PLACES	 (1UL << 20) /* more than the module has bytes of code */
#define KEPT_MAX 4096
#define TOGETHER "together\n"

struct input {
	int count;
	bool together;
	struct step step[LONGEST];
};

static struct guide {
	char *dir; /* from FUZZ_CORPUS */
	/* KCOV: [0] is the number of entries that follow; NULL without KCOV */
	unsigned long *trace;
	bool (*clean)(void); /* called after the process has ended: has it left nothing? */
	int kcov;
	unsigned long *traced; /* length of the trace after each step; shared */
	bool block[PLACES], pair[PLACES];
	int blocks, pairs; /* blocks of code that ran, and pairs of them in sequence */
	struct input kept[KEPT_MAX];
	int kept_count, read, played, failed;
} guide;

/* --- as text -------------------------------------------------------------------------------- */

static void input_write(const struct input *in, const char *name)
{
	char path[512];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", guide.dir, name);
	file = fopen(path, "we");
	need(file);
	for (const struct step *s = in->step; s < in->step + in->count; s++) {
		fprintf(file, "%s %u", steps[s->kind].name, s->seed);
		for (int i = 0; i < s->patches; i++)
			fprintf(file, " %u=%u", s->patch[i].at, s->patch[i].shows);
		fprintf(file, "\n");
	}
	if (in->together)
		fprintf(file, TOGETHER);
	need(fclose(file) == 0);
}

static struct step step_read(char *line)
{
	struct step s = {};
	char *word = strtok(line, " \n");

	while (s.kind < NSTEPS && strcmp(steps[s.kind].name, word) != 0)
		s.kind++;
	need(s.kind < NSTEPS && (word = strtok(NULL, " \n")));
	s.seed = strtoul(word, NULL, 10);
	for (; s.patches < PATCHES && (word = strtok(NULL, " \n")); s.patches++)
		need(sscanf(word, "%u=%u", &s.patch[s.patches].at, &s.patch[s.patches].shows) == 2);
	return s;
}

static struct input input_read(const char *path)
{
	struct input in = {};
	char line[256];
	FILE *file = fopen(path, "re");

	need(file);
	while (fgets(line, sizeof(line), file))
		if (strcmp(line, TOGETHER) == 0)
			in.together = true;
		else if (in.count < LONGEST)
			in.step[in.count++] = step_read(line);
	fclose(file);
	return in;
}

/* --- running an input ------------------------------------------------------------------- */

struct taker {
	const struct input *in;
	struct walker w;
	int first, stride;
};

static void *takes_some(void *arg)
{
	struct taker *t = arg;
	struct walker *w = &t->w;

	w->desk = pages(sizeof(struct desk));
	for (int i = t->first; i < t->in->count; i += t->stride) {
		w->step = &t->in->step[i];
		w->dice = w->step->seed;
		w->rolled = 0;
		steps[w->step->kind].take(w, some_file(w));
		if (guide.trace)
			guide.traced[i] = guide.trace[0];
	}
	return NULL;
}

static void takes_steps(void *arg)
{
	const struct input *in = arg;
	static struct user u = {.contexts = 2};
	static struct taker takers[2];
	pthread_t other = 0;

	u.arena = pages(ARENA);
	for (int i = 0; i < u.contexts; i++)
		u.file[i].fd = device();
	for (int i = 0; i < 2; i++)
		takers[i] = (struct taker){in, {.u = &u}, i, in->together ? 2 : 1};
	need(!guide.trace || ioctl(guide.kcov, KCOV_ENABLE, KCOV_TRACE_PC) == 0);
	if (in->together)
		other = thread(takes_some, &takers[1]);
	takes_some(&takers[0]);
	if (in->together)
		pthread_join(other, NULL);
}

/* The module of tests/fail reports coverage of workers, too, and marks it. */
static bool by_a_worker(unsigned long here)
{
	return !(here >> 63);
}

/*
 * Returns how many of the steps it takes to reach new code, or 0. Pairs are only counted for one
 * thread: of two threads a block can't be attributed to a step.
 */
static int look(const struct input *in)
{
	unsigned long last = 0, n = guide.trace[0] < TRACE - 1 ? guide.trace[0] : TRACE - 1;
	int at = 0, worth = 0;

	for (unsigned long i = 1; i <= n; i++) {
		unsigned long here = guide.trace[i], pair;

		for (; at < in->count - 1 && i > guide.traced[at]; at++)
			last = 0;
		if (!guide.block[here % PLACES]) {
			guide.block[here % PLACES] = true;
			guide.blocks++;
			worth = in->together ? in->count : at + 1;
		}
		if (in->together || by_a_worker(here))
			continue;
		pair = (last * 31 + here) % PLACES;
		if (!guide.pair[pair]) {
			guide.pair[pair] = true;
			guide.pairs++;
			worth = at + 1;
		}
		last = here;
	}
	return worth;
}

static int play(const struct input *in)
{
	bool well;

	if (guide.dir)
		input_write(in, "last"); /* for inspection if the machine crashes */
	memset(town, 0, sizeof(*town));
	if (guide.trace)
		guide.trace[0] = 0;
	memset(guide.traced, 0xff, LONGEST * sizeof(*guide.traced));
	well = reap(spawn(takes_steps, (void *)in)) <= 0;
	if (guide.clean)
		well &= guide.clean();
	guide.played++;
	if (!well) {
		guide.failed++;
		if (guide.dir)
			input_write(in, "failed");
	}
	return guide.trace ? look(in) : 0;
}

static void keep(const struct input *in, int worth, struct walker *w)
{
	struct input *to =
		&guide.kept[guide.kept_count < KEPT_MAX ? guide.kept_count++ : roll(w, KEPT_MAX)];

	*to = *in;
	to->count = worth;
}

static void play_all(const char *dir, struct walker *w)
{
	struct dirent *entry;
	char path[512];
	DIR *d = opendir(dir);

	need(d);
	while ((entry = readdir(d))) {
		struct input in;
		int worth;

		if (!strchr("0123456789abcdef", entry->d_name[0]))
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
		about("%s", path);
		in = input_read(path);
		guide.read++;
		worth = play(&in);
		if (worth)
			keep(&in, worth, w);
	}
	about("%s", "");
	closedir(d);
}

/* --- mutations ------------------------------------------------------------------------------ */

static void insert(struct input *in, int at, struct step s)
{
	if (in->count == LONGEST)
		return;
	memmove(&in->step[at + 1], &in->step[at], (in->count++ - at) * sizeof(s));
	in->step[at] = s;
}

static struct step new_step(struct walker *w)
{
	return (struct step){.kind = some_step(w), .seed = roll_any(w)};
}

static void change(struct walker *w, struct input *in)
{
	const struct input *other = &guide.kept[roll(w, guide.kept_count)];
	int at = roll(w, in->count), from = roll(w, other->count);
	struct step *s = &in->step[at];

	switch (roll(w, 6)) {
	case 0:
		*s = (struct step){.kind = s->kind, .seed = roll_any(w)};
		break;
	case 1:
		s->patches = s->patches % PATCHES + 1;
		s->patch[s->patches - 1].at = roll(w, one_in(w, 2) ? 16 : 64);
		s->patch[s->patches - 1].shows = one_in(w, 2) ? roll(w, 16) : roll_any(w);
		break;
	case 2:
		if (in->count > 1)
			memmove(s, s + 1, (--in->count - at) * sizeof(*s));
		break;
	case 3:
		insert(in, at, other->step[from]);
		break;
	case 4: /* the end of another input */
		for (in->count = at + 1; from < other->count && in->count < LONGEST; from++)
			in->step[in->count++] = other->step[from];
		break;
	default:
		insert(in, one_in(w, 2) ? in->count : at, new_step(w));
	}
}

static struct input new_input(struct walker *w)
{
	struct input in = {};

	if (!guide.kept_count || one_in(w, 32)) {
		in.count = 1 + roll(w, LONGEST);
		in.together = one_in(w, 4);
		for (int i = 0; i < in.count; i++)
			in.step[i] = new_step(w);
		return in;
	}
	/* Prefer the newest inputs, which were mutated least. */
	in = guide.kept[one_in(w, 3) && guide.kept_count > 16 ? guide.kept_count - 1 - roll(w, 16) :
								roll(w, guide.kept_count)];
	for (int n = 1 << roll(w, 4); n; n--)
		change(w, &in);
	in.together = one_in(w, 4);
	return in;
}

static void search_until(__u64 end, struct walker *w)
{
	while (now_ns() < end) {
		struct input in = new_input(w);
		int worth = play(&in);
		char name[32];

		if (!worth)
			continue;
		keep(&in, worth, w);
		in.count = worth;
		snprintf(name, sizeof(name), "%08x%08x", roll_any(w), roll_any(w));
		if (guide.dir)
			input_write(&in, name);
	}
}

static void guide_open(void)
{
	int fd = open("/sys/kernel/debug/kcov", O_RDWR | O_CLOEXEC);

	guide.dir = getenv("FUZZ_CORPUS");
	guide.traced = shared(LONGEST * sizeof(*guide.traced));
	if (fd < 0)
		return;
	guide.kcov = fd;
	need(ioctl(fd, KCOV_INIT_TRACE, TRACE) == 0);
	guide.trace =
		mmap(NULL, TRACE * sizeof(*guide.trace), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	need(guide.trace != MAP_FAILED);
}

static void guide_close(void)
{
	if (!guide.trace)
		return;
	munmap(guide.trace, TRACE * sizeof(*guide.trace));
	close(guide.kcov);
}

#endif
