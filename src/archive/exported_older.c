/* archive/exported_older.c -- exported programs in the layouts that PyTorch wrote before.
 *
 *     to 2.6:   serialized_exported_program.json, version, serialized_state_dict.pt,
 *               serialized_constants.pt (both .json at first), serialized_example_inputs.pt,
 *               extra_files/NAME
 *     2.7, 2.8: models/NAME.json with data/weights/NAME.pt, data/constants/NAME.pt
 *
 * The program's JSON is of the same schema.  State is one torch.save file of a dict instead of a
 * record for each storage.  All are written in the present layout: tensors that share memory in the
 * pickle share a record then. */
#include "archive/exported_older.h"

#include "archive/torchscript.h"
#include "export/program.h"

#define PROGRAM "serialized_exported_program.json"

bool exported_is_older(const zip_archive *z) { return zip_find_name(z, STR(PROGRAM)) != NULL; }

const char *exported_model_record(session *s, const zip_archive *z, str program)
{
  if (exported_is_older(z))
    return PROGRAM;
  return session_printf(s, "models/%.*s.json", (int)program.len, program.p);
}

const char *exported_samples_record(session *s, const zip_archive *z, str program)
{
  if (exported_is_older(z))
    return "serialized_example_inputs.pt";
  return session_printf(s, "data/sample_inputs/%.*s.pt", (int)program.len, program.p);
}

void exported_check_older(session *s, const zip_archive *z)
{
  const zip_entry *e = zip_find_name(z, STR("version"));
  int major = 0;

  if (!e)
    session_fail_status(s, RUSH_EFORMAT, NULL, NULL,
                        "%s: the record 'version' is missing, which is beside " PROGRAM,
                        z->map->name);
  const str text = zip_read(s, z, e, NULL);
  for (size_t i = 0; i < text.len && text.p[i] >= '0' && text.p[i] <= '9' && major < 1000; i++)
    major = 10 * major + (text.p[i] - '0');
  if (major != EXPORT_SCHEMA_MAJOR)
    session_fail_status(s, RUSH_EUNSUPPORTED, "RuntimeError", NULL,
                        "%s: Serialized version %.*s does not match our current schema version "
                        "(%d, %d): open it with the PyTorch that wrote it, and save it with a "
                        "newer one",
                        z->map->name, (int)(text.len < 40 ? text.len : 40), text.p,
                        EXPORT_SCHEMA_MAJOR, EXPORT_SCHEMA_MINOR);
}

const zip_entry *exported_pickled_state(session *s, const zip_archive *z, str program,
                                        bool is_constants)
{
  const char *name = is_constants ? "constants" : "state_dict";
  const zip_entry *e;

  if (!exported_is_older(z))
    return zip_find(z, session_printf(s, "data/%s/%.*s.pt", is_constants ? "constants" : "weights",
                                      (int)program.len, program.p));
  if ((e = zip_find(z, session_printf(s, "serialized_%s.pt", name))) != NULL)
    return e;
  return zip_need(s, z, session_printf(s, "serialized_%s.json", name));
}

void exported_read_pickled(session *s, zip_archive *z, const zip_entry *e, type_store *types,
                           table *state)
{
  mapping *map, *owner = NULL;
  size_t pos = 0;

  const str bytes = zip_read(s, z, e, &owner);
  if (!bytes.len) /* PyTorch writes nothing for nothing */
    return;
  const char *name =
    session_printf(s, "%s: %.*s", z->map->name, (int)e->name.len, e->name.p);
  session_check(s, mapping_copy(s->cx, name, bytes.p, bytes.len, &map));
  mapping_defer(s, map);
  const rush_value v = torchscript_load_value(s, zip_open(s, map, false), types, true);
  if (v.tag != RUSH_TAG_DICT)
    session_fail_status(s, RUSH_EFORMAT, NULL, NULL, "%s: expected a dict of tensors", name);
  for (const dict_entry *d; (d = dict_next(v.as.dict, &pos));) {
    if (d->key.tag != RUSH_TAG_STRING || memchr(value_str(d->key).p, 0, value_str(d->key).len))
      session_fail_status(s, RUSH_EFORMAT, NULL, NULL, "%s: a key is no name", name);
    if (d->value.tag != RUSH_TAG_TENSOR || !d->value.as.tensor) /* a custom object: kept, not run */
      continue;
    if (table_get(state, value_str(d->key)))
      session_fail_status(s, RUSH_EFORMAT, NULL, NULL, "%s: a second weight '%s'", name,
                          d->key.as.string->text);
    session_table_put(s, state, value_str(d->key), d->value.as.tensor);
  }
}
