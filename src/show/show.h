/* show/show.h -- texts about a module, for people: what `rushlight show` prints.  Nothing is run.
 * */
#ifndef RUSH_ARCHIVE_SHOW_H
#define RUSH_ARCHIVE_SHOW_H

#include "module/module.h"

void show_summary(session *s, module *m, text_buf *out);
/* One method's, or (NULL) all that an archive would hold.  Exported programs: `def forward(self,
 * x): ...` in PyTorch's manner. */
void show_code(session *s, module *m, const char *method, text_buf *out);
void show_dot(session *s, const char *name, const ir_graph *g, text_buf *out);
void show_digest(session *s, module *m, text_buf *out);
/* The program as JSON (the form is told in show_json.c): what `method` reaches, or NULL: every
 * method. */
void show_json(session *s, module *m, const char *method, text_buf *out);

/* check.c: what is wrong with functions that methods reach, a line each: a graph that breaks a
 * rule, a text that does not compile, an operator that cannot run here.  Nothing when all is well.
 * */
void show_faults(session *s, module *m, text_buf *out);

#endif
