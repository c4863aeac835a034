/* archive/show.h -- texts about a module, for people: what `rushlight show` prints.  Nothing is run. */
#ifndef RUSH_ARCHIVE_SHOW_H
#define RUSH_ARCHIVE_SHOW_H

#include "archive/module.h"

void show_summary(session *s, module *m, text_buf *out);
/* Archives: their files.  Exported programs: `def forward(self, x): ...` in PyTorch's manner. */
void show_code(session *s, module *m, text_buf *out);
void show_dot(session *s, const function *f, text_buf *out);
void show_digest(session *s, module *m, text_buf *out);

#endif
