/* script/front/import.h -- the source importer of archives: resolves qualified names to types, and
 * loads files on demand.
 *
 * An importer is attached to a program.  A qualified name `__torch__.a.b.C` is looked up in the
 * file `code/__torch__/a/b.py` (its prefix); each file is parsed once, at first use; a class is
 * completed (attributes, constants, methods declared with their schemas) when it is first resolved;
 * method bodies are compiled when first called (function_ensure).
 *
 * Threads: names are resolved while loading, and afterwards under the program's lock. */
#ifndef RUSH_SCRIPT_IMPORT_H
#define RUSH_SCRIPT_IMPORT_H

#include "ir/program.h"

typedef struct script_files {
  /* Find the text of a code record ("code/__torch__/a/b.py"); returns false if there is none.
   * The text must live as long as the session.  *version: the archive's operator version
   * (upgraders). */
  bool (*find)(session *s, void *user, const char *path, str *text);
  void *user;
  int64_t version;
} script_files;

/* Attach an importer; `files` and everything it points to must live as long as the program (in
 * p->mem), unless script_import_all has loaded every file that can be needed. */
void script_importer_attach(session *s, program *p, const script_files *files);
/* Return the complete type (class, interface, enum, NamedTuple); leaves the session if the name is
 * unknown. */
const type *script_import_type(session *s, program *p, str qualified);
/* Add methods to a class from a text of plain functions, the form of PyTorch 1.0 to 1.3. */
void script_import_methods(session *s, program *p, const type *cls, const char *file, str text);
/* Parse a type written as an annotation: "Dict[str, Tensor]", "List[__torch__.C]". */
const type *script_parse_type(session *s, program *p, str text);

#endif
