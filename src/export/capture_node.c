/* export/capture_node.c -- the nodes of captured programs: their names and, as metadata, the lines
 * and modules that they come from. Both are torch.export's letter by letter, because its users look
 * nodes up by name and read the places in error messages. */
#include "export/capture_int.h"

#include "formats/json.h"
#include "fx/names.h"

/* -- Copies ------------------------------------------------------------------------------------ */

const fx_arg *capture_args(capture *c, const fx_arg *args, uint32_t n)
{
  fx_arg *copy = session_alloc_in(c->s, c->mem, ((size_t)n + 1) * sizeof *copy);

  if (n)
    memcpy(copy, args, n * sizeof *copy);
  return copy;
}

const char *capture_str(capture *c, str text)
{
  char *copy = session_alloc_in(c->s, c->mem, text.len + 1);

  if (text.len)
    memcpy(copy, text.p, text.len);
  return copy;
}

const char *capture_text(capture *c, const char *text) { return capture_str(c, str_of(text)); }

/* -- Where a node comes from ------------------------------------------------------------------- */

/* Append `File "net.py", line 12, in forward` and the line's text. */
static void add_line(text_buf *out, const source *src, uint32_t offset, const char *in)
{
  uint32_t line, column, start = offset < src->len ? offset : (uint32_t)src->len, end;

  source_position(src, start, &line, &column);
  while (start > 0 && src->text[start - 1] != '\n')
    start--;
  while (start < src->len && (src->text[start] == ' ' || src->text[start] == '\t'))
    start++;
  for (end = start; end < src->len && src->text[end] != '\n';)
    end++;
  text_printf(out, "%sFile \"%s\", line %u, in %s\n    %.*s", out->len ? "\n  " : "",
              src->name ? src->name : "<string>", line, in, (int)(end - start), src->text + start);
}

/* Append a line of Python's frames as a trace has it, "net.py(12): forward", and the line's text,
 * if `is_wanted`; returns false if it is no such line. */
static bool add_python_frame(text_buf *out, str line, str code, bool is_wanted)
{
  size_t open = line.len, close;

  while (open > 0 && line.p[open - 1] != '(')
    open--;
  for (close = open; close < line.len && line.p[close] >= '0' && line.p[close] <= '9'; close++)
    ;
  if (!open || close == open || close + 3 > line.len || memcmp(line.p + close, "): ", 3) != 0)
    return false;
  if (is_wanted)
    text_printf(out, "%sFile \"%.*s\", line %.*s, in %.*s\n    %.*s", out->len ? "\n  " : "",
                (int)open - 1, line.p, (int)(close - open), line.p + open,
                (int)(line.len - close - 3), line.p + close + 3, (int)code.len, code.p);
  return true;
}

/* Append the frames of a node that was traced, whose text they are, innermost first; returns false
 * if the text is code.  Of a live capture only those are appended that have a line of code
 * ("    y = x + 1" after their frame): torch.export's. */
static bool add_python_frames(text_buf *out, const source *src, bool is_live)
{
  static const char indent[] = "\n    ";
  const bool needs_code = is_live || strstr(src->text, indent) != NULL;
  const size_t n_indent = sizeof indent - 2;
  bool found = false;
  str code = {NULL, 0};
  size_t end = src->len;

  while (end > 0) {
    size_t start = end - 1;
    while (start > 0 && src->text[start - 1] != '\n')
      start--;
    size_t len = end - start;
    len -= len && src->text[end - 1] == '\n';
    if (len >= n_indent && memcmp(src->text + start, indent + 1, n_indent) == 0) {
      code = (str){src->text + start + n_indent, len - n_indent};
    } else {
      found |= add_python_frame(out, (str){src->text + start, len}, code, !needs_code || code.p);
      code = (str){NULL, 0};
    }
    end = start;
  }
  return found;
}

static void add_frames(capture *c, text_buf *out, const capture_frame *f)
{
  source_range from;
  source *src;

  if (!f)
    return;
  session_enter(c->s);
  add_frames(c, out, f->outer);
  session_leave(c->s);
  const program *p = f->function->program;
  const bool is_live = c->options->structure != NULL;
  if (!f->at || !f->at->range.src || f->function->is_builtin)
    return;
  if (p->original && p->original(c->s->cx, f->function->program, &f->at->range, &from, &src)) {
    if (!add_python_frames(out, src, is_live))
      add_line(out, src, from.start, f->function->name);
    source_release(src);
  } else if (!add_python_frames(out, f->at->range.src, is_live)) {
    add_line(out, f->at->range.src, f->at->range.start, f->function->name);
  }
}

/* Append "L__self__,,Net;L__self__layer.0@1,layer.0,Linear", outermost first. */
static void add_modules(capture *c, text_buf *out, const capture_module *m)
{
  static const char package[] = "__torch__.";
  const size_t n = sizeof package - 1;

  if (!m)
    return;
  session_enter(c->s);
  add_modules(c, out, m->outer);
  session_leave(c->s);
  text_printf(out, "%sL__self__%s", out->len ? ";" : "", m->path);
  if (m->call)
    text_printf(out, "@%u", m->call);
  text_printf(out, ",%s,%s", m->path,
              strncmp(m->class_name, package, n) == 0 ? m->class_name + n : m->class_name);
}

static str metadata_here(capture *c)
{
  text_buf *out = session_text(c->s), *part = session_text(c->s);

  if (c->origin)
    return c->origin->metadata;
  add_frames(c, part, c->frame);
  text_puts(out, "{\"stack_trace\": ");
  json_quote(out, str_of(session_take_text(c->s, part)));
  part = session_text(c->s);
  add_modules(c, part, c->module);
  text_puts(out, ", \"nn_module_stack\": ");
  json_quote(out, str_of(session_take_text(c->s, part)));
  text_putc(out, '}');
  return str_of(capture_text(c, session_take_text(c->s, out)));
}

/* -- Nodes ------------------------------------------------------------------------------------- */

/* Return what a node is called by what it calls: "add" of "torch.ops.aten.add.Tensor", as PyTorch
 * calls it; symbolic sizes keep their overload. */
static const char *node_name(capture *c, const char *target)
{
  const char *last = strrchr(target, '.'), *name = fx_target_name(c->s, target);
  const char *first = last;

  if (strncmp(target, "torch.ops.", 10) != 0 || strncmp(target, "torch.ops.higher_order.", 23) == 0)
    return name;
  while (first > target && first[-1] != '.')
    first--;
  const size_t n = (size_t)(last - first);
  if (strncmp(first, "sym_", 4) == 0)
    return session_printf(c->s, "%.*s_%s", (int)n, first, last + 1);
  const bool is_magic = n > 4 && strncmp(first, "__", 2) == 0 && last[-1] == '_' &&
                        last[-2] == '_';
  return fx_snake_case(c->s, is_magic ? (str){first + 2, n - 4} : (str){first, n});
}

fx_node *capture_node(capture *c, const char *target, const fx_arg *args, uint32_t n_args)
{
  return capture_named_node(c, target, node_name(c, target), args, n_args);
}

fx_node *capture_named_node(capture *c, const char *target, const char *name, const fx_arg *args,
                            uint32_t n_args)
{
  fx_node *n = fx_node_new(c->s, c->g, FX_CALL_FUNCTION, capture_text(c, target), name);

  n->args = capture_args(c, args, n_args);
  n->n_args = n_args;
  n->metadata = metadata_here(c);
  session_poll(c->s);
  return n;
}
