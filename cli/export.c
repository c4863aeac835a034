/* cli/export.c -- `rushlight export`: a call of a TorchScript model as an exported program, a .pt2
 * that torch.export.load opens. */
#include "call.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define MOST_DIMS 256

typedef struct dim_list {
  rush_export_dim items[MOST_DIMS];
  char *texts[MOST_DIMS]; /* owned: what the items borrow */
  size_t n;
} dim_list;

static bool read_int(const char *text, int64_t *out)
{
  char *end;

  errno = 0;
  *out = strtoll(text, &end, 10);
  return *text && !*end && errno == 0;
}

/* Read what stands behind '=': auto, NAME, MIN:MAX, NAME:MIN:MAX. */
static bool read_range(char *text, rush_export_dim *d)
{
  char *first = strchr(text, ':'), *second = first ? strchr(first + 1, ':') : NULL;

  if (!first) {
    d->name = strcmp(text, "auto") == 0 ? NULL : text;
    d->least = d->name ? d->least : 2;
    return *text != '\0';
  }
  *first = '\0';
  if (second) {
    *second = '\0';
    d->name = text;
    return read_int(first + 1, &d->least) && read_int(second + 1, &d->most);
  }
  return read_int(text, &d->least) && read_int(first + 1, &d->most);
}

/* Read `DIM`, `INPUT.DIM`, `INPUT.DIM=RANGE`. */
static bool read_dim(dim_list *l, const char *option)
{
  char *text = l->n < MOST_DIMS ? strdup(option) : NULL, *range, *dot;
  rush_export_dim *d = &l->items[l->n];
  int64_t dim;

  if (!text)
    return false;
  l->texts[l->n++] = text;
  *d = (rush_export_dim){.name = option, .most = INT64_MAX};
  if ((range = strchr(text, '=')))
    *range++ = '\0';
  if ((dot = strrchr(text, '.'))) {
    *dot = '\0';
    d->input = text;
  }
  if (!read_int(dot ? dot + 1 : text, &dim) || dim < 0 || dim > 63)
    return false;
  d->dim = (int)dim;
  return !range || read_range(range, d);
}

static bool read_dynamic(cli *c, dim_list *l, int *code)
{
  const char *option;

  while ((option = cli_option(c, "--dynamic")))
    if (!read_dim(l, option)) {
      *code = cli_usage("export",
                        "--dynamic '%s' is not DIM, INPUT.DIM, or one of these with =MIN:MAX, "
                        "=NAME, =NAME:MIN:MAX or =auto",
                        option);
      return false;
    }
  return true;
}

static int export_module(cli *c, rush_module *m, const call_args *a, const dim_list *l,
                         const char *path)
{
  rush_export_options o = RUSH_EXPORT_OPTIONS_INIT;
  rush_error err = RUSH_ERROR_INIT;
  rush_module *made = NULL;

  o.dims = l->items;
  o.n_dims = l->n;
  rush_status st = rush_module_export(m, a->method, a->args, a->n_args, a->named, a->n_named, &o,
                                      &made, &err);
  if (st == RUSH_OK)
    st = rush_module_save(made, path, NULL, &err);
  rush_module_release(made);
  return st == RUSH_OK ? EXIT_OK : cli_report(c, &err);
}

/* Write the program of a text with the weights of a model. */
static int write_parsed(cli *c, const char *text_path, const char *path)
{
  rush_error err = RUSH_ERROR_INIT;
  rush_module *m = NULL, *made = NULL;
  size_t n_bytes;
  rush_status st;

  if (c->argc != 1 || !path)
    return cli_usage("export", "--ir FILE takes MODEL.pt2, whose weights the program gets, and -o");
  char *text = cli_read_text(text_path, &n_bytes);
  if (!text)
    return cli_usage("export", "'%s' cannot be read", text_path);
  if (!cli_load(c, c->argv[0], &m, &err)) {
    free(text);
    return cli_report(c, &err);
  }
  st = rush_export_parse(m, text, n_bytes, text_path, &made, &err);
  free(text);
  if (st == RUSH_OK)
    st = rush_module_save(made, path, NULL, &err);
  rush_module_release(made);
  rush_module_release(m);
  return st == RUSH_OK ? EXIT_OK : cli_report(c, &err);
}

static int run_export(cli *c, const dim_list *l, const char *path)
{
  rush_error err = RUSH_ERROR_INIT;
  call_args a = {0};
  rush_module *m;
  int code;

  if (!path)
    return cli_usage("export", "export needs -o FILE.pt2");
  if (!call_parse(c, "export", &a, &code))
    return code;
  if (cli_load(c, c->argv[0], &m, &err)) {
    call_default_method(c->argv[0], m, &a);
    code = export_module(c, m, &a, l, path);
    rush_module_release(m);
  } else {
    code = cli_report(c, &err);
  }
  call_free(&a);
  return code;
}

int cli_export(cli *c)
{
  const char *output = cli_option(c, "--output"), *path = output ? output : cli_option(c, "-o");
  const char *text = cli_option(c, "--ir");
  int code = EXIT_OK;

  if (text)
    return write_parsed(c, text, path);
  dim_list *l = calloc(1, sizeof *l);

  if (!l)
    return cli_usage("export", "memory ran out");
  if (read_dynamic(c, l, &code))
    code = c->argc < 1 ? cli_usage("export", "export takes a model file") : run_export(c, l, path);
  for (size_t i = 0; i < l->n; i++)
    free(l->texts[i]);
  free(l);
  return code;
}
