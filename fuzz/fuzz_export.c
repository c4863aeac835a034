/* Exported programs whole: models/model.json of an archive of sections, or a whole .pt2 (what
 * tools/mutate_exports.py makes of right ones).  Read as data, printed in all forms, held to the
 * rules; lowered, shown, called with its sample inputs; written, and what was written prints the
 * same; decomposed, and what comes out printed, held to the rules, written and called. */
#include "fuzz.h"

#include <stdio.h>

#include "archive/exported_open.h"
#include "archive/exported_program.h"
#include "archive/exported_read.h"
#include "archive/exported_write.h"
#include "export/text.h"
#include "formats/zip.h"

/* -- As data ----------------------------------------------------------------------------------- */

/* Print the program that the archive holds; the text is the session's. */
static const char *print_program(session *s, str bytes)
{
  const archive_source from = {.data = bytes.p, .n_bytes = bytes.len, .name = "fuzz.pt2"};
  zip_archive *z = zip_open(s, archive_map(s, &from), false);
  const str name = exported_choose(s, z, NULL);
  exported_program *p = exported_read(s, z, name, EXPORTED_AS_DATA);
  const fx_code_options all = {.verbose = true, .strides = true, .devices = true};
  text_buf *out = session_text(s);

  exported_print(s, out, p);
  fx_print_graph(s, out, p->graph);
  fx_print_code(s, out, p->graph, &all);
  fx_print_readable(s, out, p->graph, "GraphModule", &all);
  exported_faults(s, z, p, NULL, out);
  exported_faults(s, z, p, "EDGE", session_text(s));
  return session_take_text(s, out);
}

/* -- As text ----------------------------------------------------------------------------------- */

static const char *text_of_program(session *s, const exported_program *p)
{
  text_buf *out = session_text(s);

  exported_print_text(s, out, p);
  return session_take_text(s, out);
}

static const char *json_of_program(session *s, const exported_program *p)
{
  text_buf *out = session_text(s);

  write_model(s, out, p);
  return session_take_text(s, out);
}

static const char *text_of_graph(session *s, const fx_graph *g)
{
  text_buf *out = session_text(s);

  fx_print_graph(s, out, g);
  return session_take_text(s, out);
}

typedef struct graph_job {
  const char *text;
  arena *mem;
} graph_job;

static void parse_graph(session *s, void *arg)
{
  const graph_job *job = arg;
  fx_graph *g = fx_parse_graph(s, job->mem, "graph", str_of(job->text));

  fuzz_same_text(job->text, text_of_graph(s, g));
}

/* Print the graph and parse that: names and texts of a hostile graph may not come back, but what
 * does is the same. */
static void check_graph_text(session *s, exported_program *p)
{
  rush_error err = RUSH_ERROR_INIT, *outer = s->cx->err;
  graph_job job = {.text = text_of_graph(s, p->graph), .mem = &p->mem};

  s->cx->err = &err;
  const rush_status st = session_run(s->cx, parse_graph, &job);
  s->cx->err = outer;
  if (st != RUSH_OK && fuzz_is_verbose())
    fprintf(stderr, "%s\n", err.message);
  fuzz_check_error(st, &err);
  rush_error_clear(&err);
}

/* Print the program as text and parse that: it has to be the same program, with the same text; and
 * its graph's text, which has to come back as it was if it can be parsed. */
static void check_text(session *s, str bytes)
{
  const archive_source from = {.data = bytes.p, .n_bytes = bytes.len, .name = "fuzz.pt2"};
  zip_archive *z = zip_open(s, archive_map(s, &from), false);
  exported_program *p = exported_read(s, z, exported_choose(s, z, NULL), EXPORTED_AS_DATA);
  const char *text = text_of_program(s, p);
  exported_program *again = exported_parse_text(s, "text", str_of(text));

  fuzz_same_text(text, text_of_program(s, again));
  fuzz_same_text(json_of_program(s, p), json_of_program(s, again));
  check_graph_text(s, p);
}

/* -- As a module ------------------------------------------------------------------------------- */

static void release_module(void *m) { module_release(m); }
static void release_open(void *o) { exported_open_release(o); }

/* Call forward with the sample inputs, if there are any. */
static void call_samples(session *s, module *m)
{
  rush_error err = RUSH_ERROR_INIT;
  call_ctx cx = *s->cx;
  rush_value samples, result;

  cx.err = &err;
  rush_status st = module_samples(&cx, m, &samples);
  if (st == RUSH_OK && samples.tag == RUSH_TAG_TUPLE) {
    const rush_tuple *args = samples.as.tuple->items[0].as.tuple;
    const rush_dict *named = samples.as.tuple->items[1].as.dict;
    named_arg *kwargs = session_array(s, named_arg, named->n + 1);
    uint32_t n = 0;
    size_t pos = 0;
    for (const dict_entry *e; (e = dict_next(named, &pos));)
      kwargs[n++] = (named_arg){value_str(e->key), e->value};
    st = module_call(&cx, m, "forward", args->items, (uint32_t)args->n, kwargs, n, &result);
    if (st == RUSH_OK)
      value_release(result);
    value_release(samples);
  }
  fuzz_check_error(st, &err);
  rush_error_clear(&err);
}

/* Write the program; NULL: it cannot be written, which must not be so if it `was_written`. */
static text_buf *write_program(session *s, module *m, bool was_written)
{
  rush_error err = RUSH_ERROR_INIT;
  text_buf *bytes = session_text(s);
  const output out = output_to_text(bytes);
  const archive_target to = {.out = &out};
  call_ctx cx = *s->cx;

  cx.err = &err;
  const rush_status st = exported_write(&cx, m, &to);
  fuzz_check_error(st, &err);
  if (was_written && st != RUSH_OK && st != RUSH_ENOMEM && st != RUSH_ELIMIT)
    fprintf(stderr, "fuzz: %s\n", err.message);
  fuzz_demand(!was_written || st == RUSH_OK || st == RUSH_ENOMEM || st == RUSH_ELIMIT,
              "a written program cannot be written");
  rush_error_clear(&err);
  return st == RUSH_OK ? bytes : NULL;
}

/* Compare a program with what is written of it.  Ranges that are not used are dropped only by
 * readers, so that a text can differ from the file's; the second text cannot. */
static void check_written(session *s, const text_buf *bytes)
{
  archive_source from = {.data = bytes->data, .n_bytes = bytes->len, .name = "fuzz.pt2"};
  module *m;

  session_check(s, module_load(s->cx, &from, &m));
  session_defer(s, release_module, m);
  const text_buf *again = write_program(s, m, true);
  if (again)
    fuzz_same_text(print_program(s, (str){bytes->data, bytes->len}),
                   print_program(s, (str){again->data, again->len}));
}

/* -- Decomposed -------------------------------------------------------------------------------- */

/* Check that a decomposed program breaks no rule, if the program that it comes from broke none. */
static void check_decomposed(session *s, call_ctx *cx, exported_open *o, exported_open *made)
{
  text_buf *before = session_text(s), *after = session_text(s);

  rush_status st = exported_open_verify(cx, o, NULL, before);
  if (st == RUSH_OK && !before->len)
    st = exported_open_verify(cx, made, NULL, after);
  fuzz_check_error(st, cx->err);
  rush_error_clear(cx->err);
  if (after->len)
    fprintf(stderr, "fuzz: %s\n", text_str(after));
  fuzz_demand(!after->len, "a decomposed program breaks a rule");
}

/* Print, write, lower and call a program that was decomposed. */
static void use_decomposed(session *s, call_ctx *cx, exported_open *made)
{
  const output out = output_to_text(session_text(s));
  const archive_target to = {.out = &out};
  module *m;

  exported_print(s, session_text(s), made->data);
  rush_status st = exported_open_write(cx, made, &to);
  fuzz_check_error(st, cx->err);
  rush_error_clear(cx->err);
  st = exported_open_module(cx, made, true, &m);
  fuzz_check_error(st, cx->err);
  rush_error_clear(cx->err);
  if (st != RUSH_OK)
    return;
  session_defer(s, release_module, m);
  call_samples(s, m);
}

static void decompose(session *s, const archive_source *from)
{
  rush_error err = RUSH_ERROR_INIT;
  exported_open *o, *made;
  call_ctx cx = *s->cx;

  cx.err = &err;
  rush_status st = exported_open_new(&cx, from, &o);
  fuzz_check_error(st, &err);
  rush_error_clear(&err);
  if (st != RUSH_OK)
    return;
  session_defer(s, release_open, o);
  st = exported_open_decompose(&cx, o, NULL, &made);
  fuzz_check_error(st, &err);
  rush_error_clear(&err);
  if (st != RUSH_OK)
    return;
  session_defer(s, release_open, made);
  check_decomposed(s, &cx, o, made);
  use_decomposed(s, &cx, made);
}

static void body(session *s, str text)
{
  const fuzz_record defaults[] = {{"archive_format", STR("pt2")},
                                  {"byteorder", STR("little")},
                                  {"archive_version", STR("0")}};
  str bytes = text;
  module *m;

  if (!zip_looks_like(text.p, text.len))
    bytes = fuzz_pack(s, "models/model.json", text, defaults, COUNT_OF(defaults));
  print_program(s, bytes);
  check_text(s, bytes);
  archive_source from = {.data = bytes.p, .n_bytes = bytes.len, .name = "fuzz.pt2"};
  session_check(s, module_load(s->cx, &from, &m));
  session_defer(s, release_module, m);
  fuzz_show_module(s, m, 50);
  const text_buf *written = write_program(s, m, false);
  call_samples(s, m);
  if (written)
    check_written(s, written);
  decompose(s, &from);
}

int fuzz_export(const uint8_t *data, size_t n)
{
  fuzz_session(data, n, body);
  return 0;
}
