/* cli.h -- shared by the subcommands of `rushlight`.  Only the public header is used. */
#ifndef RUSH_CLI_H
#define RUSH_CLI_H

#include <stdio.h>

#include "rushlight/rushlight.h"

/* Exit codes, for scripts. */
enum {
  EXIT_OK = 0,
  EXIT_NEGATIVE = 1, /* the answer is no: a case failed, a row was slower */
  EXIT_USAGE = 2,
  EXIT_REFUSED = 3,  /* the file was refused */
  EXIT_RAISED = 4,   /* the program raised */
  EXIT_LIMIT = 5,    /* a limit was reached, or the call was cancelled */
  EXIT_FAULT = 70    /* our fault */
};

typedef struct cli_tolerance {
  double rtol, atol; /* a difference of at most atol + rtol * |expected| is accepted */
} cli_tolerance;

typedef struct cli {
  rush_context *context;
  const rush_context_options *options; /* the options it was made with */
  rush_load_options load;
  rush_call_options call;
  bool json;
  bool read_stdin;  /* standard input was already read, which is only possible once */
  int dtype;        /* --dtype: for factories of floats; -1: their default */
  uint64_t seed;
  const cli_tolerance *tolerances; /* --rtol, --atol: `tolerance`; or NULL */
  cli_tolerance tolerance;
  int argc;    /* arguments left after the common options: argv[0..argc) */
  char **argv;
  /* Text that the program printed since cli_take_output, if captured. */
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
int cli_gradcheck(cli *c);
int cli_bind(cli *c);
int cli_export(cli *c);
int cli_decompose(cli *c);
/* Read --rtol and --atol into c->tolerances.  Returns false with *code set after printing the
 * reason. */
bool cli_take_tolerances(cli *c, const char *verb, int *code);

/* Return the exit code for a status. */
int cli_exit(rush_status st);
/* Print "rushlight: ..." for the error (with --json, an object too), clear it, and return the exit
 * code. */
int cli_report(const cli *c, rush_error *err);
/* Print a usage error and how to get help; returns the exit code. */
int cli_usage(const char *verb, const char *fmt, ...) RUSH_PRINTF(2, 3);
/* Remove `--name` from argv; returns whether it was there.  With `value`: `--name V` or
 * `--name=V`. */
bool cli_flag(cli *c, const char *name);
const char *cli_option(cli *c, const char *name);
/* Return the text of an unused option, which is an error, or NULL. */
const char *cli_unknown_option(cli *c);

/* stack.c: call fn(arg) on a thread with a stack of n_bytes (at least 16384).  Returns the number
 * of bytes used; 0: the thread could not be made, and fn was not called. */
size_t cli_on_stack(size_t n_bytes, void (*fn)(void *arg), void *arg);

/* plugin.c: load the files of --plugin options into the context.  Returns an exit code. */
int cli_plugins(cli *c);

/* literal.c: parse "randn(1,3,224,224)", "[1, 2.5]", "'text'", "@file.npy".  New. */
bool cli_value(cli *c, const char *text, rush_value *out, rush_error *err);
/* Return the length of NAME if text is `NAME=TEXT`, else 0. */
size_t cli_name_of(const char *text);

/* compare.c: tolerances for comparing values with recorded ones. */
typedef struct cli_tolerances {
  /* of (rtol, atol) tuples, for each leaf that has one; anything else: use cli_tolerance_of */
  rush_value list;
  size_t next;
  const cli_tolerance *given; /* used for all leaves instead; or NULL */
  bool is_exact;
  double gap; /* the largest difference so far, also between accepted values */
  char at[208];               /* position of that difference */
} cli_tolerances;
/* True if `got` equals `want`; otherwise `why` (at most `size` bytes) describes where and how they
 * differ. */
bool cli_same(rush_value want, rush_value got, cli_tolerances *tolerances, const char *where,
              char *why, size_t size);
/* cli_has_tolerance is true for float and complex tensors and numbers.  cli_tolerance_of returns
 * the default tolerance of such a leaf: by its dtype and its largest element. */
bool cli_has_tolerance(rush_value leaf);
cli_tolerance cli_tolerance_of(rush_value leaf);

/* progress.c: a progress line on a terminal for long work; nothing elsewhere. */
typedef struct progress {
  bool on;
  double shown;
} progress;
void progress_begin(progress *p);
void progress_show(progress *p, size_t done, size_t total, const char *what);
void progress_end(progress *p);
double cli_seconds(void);

/* help.c: print help on a verb, or (NULL, or no verb) on the command. */
void cli_help(const char *verb);
bool cli_is_verb(const char *word);
/* Return the verb, or the option of a verb (NULL: of any), most similar to `word`: static, or
 * NULL. */
const char *cli_near_verb(const char *word);
const char *cli_near_option(const char *verb, const char *word);
bool cli_has_option(const char *verb, const char *name);
/* List the verbs that have an option: "run, bench". */
void cli_takers(const char *name, char *out, size_t size);

/* suggest.c: keep `candidate` if it is similar to `word`, and more so than the one kept.  Start
 * with zeros. */
typedef struct suggestion {
  const char *word; /* or NULL */
  size_t distance;
} suggestion;
void cli_suggest_try(suggestion *s, const char *word, const char *candidate);

/* Refuse a value that is not one of `choices` (NULL-ended), with the nearest.  Returns
 * EXIT_USAGE. */
int cli_bad_choice(const char *option, const char *value, const char *const *choices,
                   const char *expected);
/* Refuse an option that the verb does not have, that is repeated, or lacks its value.  Returns
 * EXIT_USAGE. */
int cli_bad_option(const char *verb, const char *option);
/* Load a model from a path, or from standard input ("-").  New. */
bool cli_load(cli *c, const char *path, rush_module **out, rush_error *err);
/* Read all of standard input into malloc'ed memory; returns NULL with the error set. */
char *cli_read_stdin(cli *c, size_t *n_bytes, rush_error *err);

/* script.c: read a file's text into malloc'ed memory; returns NULL if that fails.  A file that
 * grows meanwhile is cut. */
char *cli_read_text(const char *path, size_t *n_bytes);

/* json.c: print a quoted string; print a value. */
void cli_json_text(FILE *f, const char *text);
bool cli_json_value(cli *c, FILE *f, rush_value v, rush_error *err);

#endif
