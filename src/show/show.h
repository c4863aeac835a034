/* show/show.h -- texts about a module for people: the output of `rushlight show`.  Nothing is
 * run. */
#ifndef RUSH_ARCHIVE_SHOW_H
#define RUSH_ARCHIVE_SHOW_H

#include "module/module.h"

void show_summary(session *s, module *m, text_buf *out);
/* Print the code of one method, or (NULL) all that an archive would hold.  Exported programs: `def
 * forward(self, x): ...` as PyTorch prints it. */
void show_code(session *s, module *m, const char *method, text_buf *out);
void show_dot(session *s, const char *name, const ir_graph *g, text_buf *out);
/* Print the graph of a method as it is after each phase of PyTorch's executors
 * (passes/pipelines.h). */
void show_phases(session *s, function *f, text_buf *out);
void show_digest(session *s, module *m, text_buf *out);
/* Print the program as JSON (json.c documents the format): everything that `method` reaches, or
 * NULL: every method. */
void show_json(session *s, module *m, const char *method, text_buf *out);

/* Check all functions that methods reach, and print one line per fault: a graph that breaks a
 * rule, a text that does not compile, an operator that cannot run here.  Prints nothing if there
 * is none. */
void show_faults(session *s, module *m, text_buf *out);

#endif
