/* script/front/import.h -- the source importer of archives: qualified names to types, files loaded
 * when asked.
 *
 * An importer is attached to a program.  A qualified name `__torch__.a.b.C` is looked for in the
 * file `code/__torch__/a/b.py` (its prefix); each file is parsed once, at first need; a class is
 * completed (attributes, constants, methods declared with their schemas) when it is first resolved,
 * method bodies are compiled when first called (function_ensure).
 *
 * Threads: resolving happens while loading, and afterwards under the program's lock. */
#ifndef RUSH_SCRIPT_IMPORT_H
#define RUSH_SCRIPT_IMPORT_H

#include "ir/program.h"

typedef struct script_files {
  /* The text of the code record of this path ("code/__torch__/a/b.py"); false when there is none.
   * The text must live as long as the session.  *version: the archive's operator version
   * (upgraders). */
  bool (*find)(session *s, void *user, const char *path, str *text);
  void *user;
  int64_t version;
} script_files;

/* Attach; `files` and what it points to must live as long as the program (in p->mem), unless every
 * file that can be needed was loaded by script_import_all. */
void script_importer_attach(session *s, program *p, const script_files *files);
/* The complete type (class, interface, enum, NamedTuple); leaves when the name is unknown. */
const type *script_import_type(session *s, program *p, str qualified);
/* Methods of a class from a text of plain functions, as PyTorch 1.0 to 1.3 kept each module's. */
void script_import_methods(session *s, program *p, const type *cls, const char *file, str text);
/* A type written as an annotation: "Dict[str, Tensor]", "List[__torch__.C]". */
const type *script_parse_type(session *s, program *p, str text);

#endif
