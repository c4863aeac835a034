/* archive/exported_places.c -- where the author wrote a node of an exported program: the innermost
 * place of its stack trace that is not in PyTorch's own files.  A range of such a program has no
 * text; it is the place of the node in models/NAME.json, which is read only for messages and
 * profiles.  The module that the node was called in stands behind the line as a comment. */
#include "archive/exported_older.h"
#include "archive/exported_read.h"

#include <stdlib.h>

#define INDENT 4 /* of the line in messages */

typedef struct place_files { /* program->files, in the program's memory */
  zip_archive *zip;          /* retained */
  const char *record;
} place_files;

static void release_files(program *p) { zip_release(((place_files *)p->files)->zip); }

typedef struct place_job {
  const place_files *files;
  size_t at;
  source *found; /* new, or NULL */
} place_job;

/* Return the node at the place in the record, with its metadata only. */
static fx_node node_at(session *s, const input *in, size_t at)
{
  fx_node n = {0};
  str key;
  json j;

  json_init_at(&j, s, in, (str){in->bytes.p + at, in->bytes.len - at});
  for (json_begin_object(&j); json_next_key(&j, &key);)
    if (str_is(key, "metadata"))
      n.metadata = json_raw(&j);
    else
      json_skip(&j);
  return n;
}

/* Return the last part of *text behind `separator`, and take it away with the separator. */
static str take_last(str *text, char separator)
{
  size_t at = text->len;

  while (at > 0 && text->p[at - 1] != separator)
    at--;
  const str part = {text->p + at, text->len - at};
  text->len = at ? at - 1 : 0;
  return part;
}

/* Return "  # in the module b.1, torch.nn.modules.linear.Linear" of "L__self__,,Outer;
 * L__self__b.1,b.1,torch.nn.modules.linear.Linear": the innermost module that the node was called
 * in; "" if that is the program itself, or not known. */
static const char *module_of(session *s, const fx_node *n)
{
  str stack = fx_node_metadata(s, n, "nn_module_stack");
  str module = take_last(&stack, ';');
  const str class_name = take_last(&module, ','), path = take_last(&module, ',');

  return path.len ? session_printf(s, "  # in the module %.*s, %.*s", (int)path.len, path.p,
                                   (int)class_name.len, class_name.p)
                  : "";
}

static void find_place(session *s, void *arg)
{
  place_job *job = arg;
  const zip_archive *z = job->files->zip;
  const input in = zip_input(s, z, zip_need(s, z, job->files->record));
  fx_place place;

  if (job->at >= in.bytes.len)
    return;
  const fx_node n = node_at(s, &in, job->at);
  if (!fx_author_of(fx_node_metadata(s, &n, "stack_trace"), &place))
    return;
  const char *file = session_strndup(s, place.file.p, place.file.len);
  const char *line = session_strndup(s, place.line.p, place.line.len);
  const char *code =
    session_printf(s, "    %.*s%s\n", (int)place.code.len, place.code.p, module_of(s, &n));
  source *made = source_new(s->cx->ctx, file, code, strlen(code));
  if (!made)
    session_check(s, call_nomem(s->cx));
  made->first_line = (uint32_t)strtoul(line, NULL, 10);
  job->found = made; /* last: nothing leaves any more */
}

static bool find_original(call_ctx *cx, program *p, const source_range *at, source_range *out,
                          source **src)
{
  place_job job = {.files = p->files, .at = at->start};
  call_ctx quiet = *cx; /* errors here must not hide the error that is being reported */

  quiet.err = NULL;
  if (!at->src || session_run(&quiet, find_place, &job) != RUSH_OK || !job.found)
    return false;
  *src = job.found;
  *out = (source_range){job.found, INDENT, (uint32_t)job.found->len - 1};
  return true;
}

void exported_attach_places(session *s, program *p, zip_archive *z, str name)
{
  place_files *f = session_alloc_in(s, &p->mem, sizeof *f);
  const char *record = exported_model_record(s, z, name);
  char *kept = session_alloc_in(s, &p->mem, strlen(record) + 1);

  f->record = memcpy(kept, record, strlen(record));
  f->zip = zip_retain(z);
  p->files = f;
  p->files_free = release_files;
  p->original = find_original;
}
