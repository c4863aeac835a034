/* cli.h -- shared by the subcommands of `rushlight`.  Only the public header is used. */
#ifndef RUSH_CLI_H
#define RUSH_CLI_H

#include <stdio.h>

#include "rushlight/rushlight.h"

/* Exit codes: what a script can tell apart. */
enum {
  EXIT_OK = 0,
  EXIT_NEGATIVE = 1, /* the answer is no: a case failed, a row was slower */
  EXIT_USAGE = 2,
  EXIT_REFUSED = 3,  /* the file */
  EXIT_RAISED = 4,   /* the program */
  EXIT_LIMIT = 5,    /* or cancelled */
  EXIT_FAULT = 70    /* ours */
};

#define CLI_N_DTYPES \
  30 /* numbers from 0 that may be dtypes: rush_dtype_name gives NULL for the others */

typedef struct cli_tolerance {
  double rtol, atol; /* a difference of at most atol + rtol * |expected| is none */
} cli_tolerance;

typedef struct cli {
  rush_context *context;
  const rush_context_options *options; /* that it was made with */
  rush_load_options load;
  rush_call_options call;
  bool json;
  bool read_stdin;  /* its bytes were asked for already: they come once */
  int dtype;        /* --dtype: of factories that give floats; -1: theirs */
  uint64_t seed;
  const cli_tolerance *tolerances; /* --rtol, --atol: `tolerance`; or NULL */
  cli_tolerance tolerance;
  int argc;    /* what is left after the common options: argv[0..argc) */
  char **argv;
  /* Text that the program printed since cli_take_output, when captured. */
  char *output;
  size_t output_bytes, output_cap;
  bool capture;
} cli;

int cli_run(cli *c);
int cli_verify(cli *c);
int cli_bench(cli *c);
int cli_profile(cli *c);
int cli_show(cli *c);
int cli_script(cli *c);
int cli_record(cli *c);
/* --rtol and --atol into c->tolerances.  False with *code set after printing why. */
bool cli_take_tolerances(cli *c, const char *verb, int *code);

/* The exit code of a status. */
int cli_exit(rush_status st);
/* Print "rushlight: ..." for the error (with --json, an object besides), clear it, and give the
 * exit code. */
int cli_report(const cli *c, rush_error *err);
/* Usage error: prints the message and how to get help. */
int cli_usage(const char *verb, const char *fmt, ...) RUSH_PRINTF(2, 3);
/* `--name` removed from argv when there: true.  With `value`: `--name V` or `--name=V`. */
bool cli_flag(cli *c, const char *name);
const char *cli_option(cli *c, const char *name);
/* An option that is left over is an error: its text, or NULL. */
const char *cli_unknown_option(cli *c);

/* stack.c: call fn(arg) on a thread with a stack of n_bytes (at least 16384).  Returns how many of
 * them it used, or 0 when there was no such thread: then fn was not called. */
size_t cli_on_stack(size_t n_bytes, void (*fn)(void *arg), void *arg);

/* plugin.c: load what --plugin options name into the context.  An exit code. */
int cli_plugins(cli *c);

/* literal.c: "randn(1,3,224,224)", "[1, 2.5]", "'text'", "@file.npy".  New. */
bool cli_value(cli *c, const char *text, rush_value *out, rush_error *err);
/* `NAME=TEXT` when text starts with an identifier and '=': the length of NAME, else 0. */
size_t cli_name_of(const char *text);

/* compare.c: values against recorded ones. */
typedef struct cli_tolerances {
  /* of (rtol, atol) tuples, for each leaf that has one; anything else: cli_tolerance_of's */
  rush_value list;
  size_t next;
  const cli_tolerance *given; /* holds for all leaves instead; or NULL */
  bool is_exact;
  double gap; /* the largest difference so far, also between values that are close enough */
  char at[208];               /* and where it was */
} cli_tolerances;
/* True when `got` is `want`; else why (at most `size` bytes) says where and how they differ. */
bool cli_same(rush_value want, rush_value got, cli_tolerances *tolerances, const char *where,
              char *why, size_t size);
/* True for tensors of floats, floats, and the complex ones; what each such leaf may differ by
 * unless a file or the command line says: by its dtype, and by its largest element. */
bool cli_has_tolerance(rush_value leaf);
cli_tolerance cli_tolerance_of(rush_value leaf);

/* progress.c: a line on a terminal for what takes long; nothing elsewhere. */
typedef struct progress {
  bool on;
  double shown;
} progress;
void progress_begin(progress *p);
void progress_show(progress *p, size_t done, size_t total, const char *what);
void progress_end(progress *p);
double cli_seconds(void);

/* help.c: of a verb, or (NULL, or no verb) of the command. */
void cli_help(const char *verb);
bool cli_is_verb(const char *word);
/* The verb, or the option of a verb (NULL: of any), that `word` may stand for: static, or NULL. */
const char *cli_near_verb(const char *word);
const char *cli_near_option(const char *verb, const char *word);
bool cli_has_option(const char *verb, const char *name);
/* The verbs that take an option: "run, bench". */
void cli_takers(const char *name, char *out, size_t size);

/* suggest.c: keep `candidate` if it is near `word`, and nearer than what was kept.  Start with
 * zeros. */
typedef struct suggestion {
  const char *word; /* or NULL */
  size_t distance;
} suggestion;
void cli_suggest_try(suggestion *s, const char *word, const char *candidate);

/* Refuse a value that is none of `choices` (NULL-ended), with the nearest.  EXIT_USAGE. */
int cli_bad_choice(const char *option, const char *value, const char *const *choices,
                   const char *expected);
/* Print that `option` is no option of the verb, was given twice, or lacks its value.  EXIT_USAGE.
 * */
int cli_bad_option(const char *verb, const char *option);
/* A model from a path, or from standard input ("-").  New. */
bool cli_load(cli *c, const char *path, rush_module **out, rush_error *err);
/* All of standard input, of malloc; NULL with the error set. */
char *cli_read_stdin(cli *c, size_t *n_bytes, rush_error *err);

/* json.c: a string with its quotes; a value. */
void cli_json_text(FILE *f, const char *text);
bool cli_json_value(cli *c, FILE *f, rush_value v, rush_error *err);

#endif
