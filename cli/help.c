/* help.c -- prints --help, for the command and for its verbs, from help.def. */
#include "cli.h"

#include <string.h>

typedef struct verb_help {
  const char *name, *arguments, *summary;
} verb_help;
typedef struct option_help {
  const char *verbs, *name, *value, *summary;
} option_help;
typedef struct example_help {
  const char *verb, *command, *summary;
} example_help;
typedef struct exit_help {
  int code;
  const char *meaning;
} exit_help;

#define VERB(name, arguments, summary)
#define OPTION(verbs, name, value, summary)
#define EXAMPLE(verb, command, summary)
#define EXITS(code, meaning)

#undef VERB
#define VERB(name, arguments, summary) {name, arguments, summary},
static const verb_help verbs[] = {
#include "help.def"
};
#undef VERB
#define VERB(name, arguments, summary)
#undef OPTION
#define OPTION(verbs, name, value, summary) {verbs, name, value, summary},
static const option_help options[] = {
#include "help.def"
};
#undef OPTION
#define OPTION(verbs, name, value, summary)
#undef EXAMPLE
#define EXAMPLE(verb, command, summary) {verb, command, summary},
static const example_help examples[] = {
#include "help.def"
};
#undef EXAMPLE
#define EXAMPLE(verb, command, summary)
#undef EXITS
#define EXITS(code, meaning) {code, meaning},
static const exit_help exits[] = {
#include "help.def"
};

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* True if `word` is one of the words of `text`. */
static bool has_word(const char *text, const char *word)
{
  size_t n = strlen(word);

  for (const char *p = text; (p = strstr(p, word)); p++)
    if ((p == text || p[-1] == ' ') && (p[n] == 0 || p[n] == ' '))
      return true;
  return false;
}

bool cli_is_verb(const char *word)
{
  for (size_t i = 0; i < COUNT(verbs); i++)
    if (strcmp(verbs[i].name, word) == 0)
      return true;
  return false;
}

const char *cli_near_verb(const char *word)
{
  suggestion s = {0};

  for (size_t i = 0; i < COUNT(verbs); i++)
    cli_suggest_try(&s, word, verbs[i].name);
  return s.word;
}

static bool is_of_verb(const option_help *o, const char *verb)
{
  return !verb || has_word(o->verbs, "all") || has_word(o->verbs, verb);
}

const char *cli_near_option(const char *verb, const char *word)
{
  suggestion s = {0};

  for (size_t i = 0; i < COUNT(options); i++)
    if (is_of_verb(&options[i], verb))
      cli_suggest_try(&s, word, options[i].name);
  return s.word;
}

bool cli_has_option(const char *verb, const char *name)
{
  for (size_t i = 0; i < COUNT(options); i++)
    if (is_of_verb(&options[i], verb) && strcmp(options[i].name, name) == 0)
      return true;
  return false;
}

void cli_takers(const char *name, char *out, size_t size)
{
  size_t at = 0;

  *out = 0;
  for (size_t i = 0; i < COUNT(verbs); i++)
    if (cli_has_option(verbs[i].name, name) && at < size)
      at += (size_t)snprintf(out + at, size - at, "%s%s", at ? ", " : "", verbs[i].name);
}

/* Print the options of a verb, its own before the common ones; without a verb those of all
 * verbs. */
static void print_options(const char *verb)
{
  for (size_t i = 0; i < COUNT(options); i++) {
    const option_help *o = &options[i];
    char left[64];
    if (!has_word(o->verbs, "all") && !(verb && has_word(o->verbs, verb)))
      continue;
    snprintf(left, sizeof left, "%s%s%s", o->name, *o->value ? " " : "", o->value);
    if (strlen(left) > 18)
      printf("  %s\n  %-18s %s\n", left, "", o->summary);
    else
      printf("  %-18s %s\n", left, o->summary);
  }
}

static void print_examples(const char *verb)
{
  for (size_t i = 0; i < COUNT(examples); i++) {
    bool first = i == 0 || strcmp(examples[i].verb, examples[i - 1].verb) != 0;
    if (verb ? strcmp(examples[i].verb, verb) == 0 : first)
      printf("  %s\n      %s\n", examples[i].command, examples[i].summary);
  }
}

static void verb_text(const verb_help *v)
{
  printf("rushlight %s - %s\n\nusage: rushlight %s %s [options]\n", v->name, v->summary, v->name,
         v->arguments);
  if (strstr(v->arguments, "ARG"))
    printf("\nMODEL is a .pt or .pt2 file, or - for standard input.  An ARG is a literal ([1, "
           "2.5], 'text', True), a factory\n"
           "(randn(1,3,224,224), ones(2,9,dtype=int64), full([2,2], 0.5)), or a file (@x.npy, "
           "@x.npz, @x.safetensors, @x.pt; @- is\n"
           "standard input; @x.npz[name] one of several); NAME=ARG passes it by name.  Without "
           "ARGs the sample inputs of a .pt2 are used.\n");
  printf("\nOptions:\n");
  print_options(v->name);
  printf("\nExamples:\n");
  print_examples(v->name);
}

void cli_help(const char *verb)
{
  for (size_t i = 0; verb && i < COUNT(verbs); i++)
    if (strcmp(verbs[i].name, verb) == 0) {
      verb_text(&verbs[i]);
      return;
    }
  printf("rushlight %s - open PyTorch programs and run them, without PyTorch\n\n", rush_version());
  printf("usage: rushlight VERB MODEL [ARG...] [options]\n\n");
  for (size_t i = 0; i < COUNT(verbs); i++)
    printf("  %-7s %-18s %s\n", verbs[i].name, verbs[i].arguments, verbs[i].summary);
  printf("  %-7s %-18s %s\n", "help", "VERB", "the help of VERB; rushlight MODEL shows MODEL");
  printf("\nOptions of every verb (rushlight VERB --help shows its others):\n");
  print_options(NULL);
  printf("\nExamples:\n");
  print_examples(NULL);
  printf("\nExit codes:\n");
  for (size_t i = 0; i < COUNT(exits); i++)
    printf("  %2d  %s\n", exits[i].code, exits[i].meaning);
}
