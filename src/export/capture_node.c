/* export/capture_node.c -- the nodes of captured programs and their names, which are torch.export's
 * letter by letter, because its users look nodes up by name. */
#include "export/capture_int.h"

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
  n->metadata = capture_metadata(c);
  session_poll(c->s);
  return n;
}
