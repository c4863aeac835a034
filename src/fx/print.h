/* fx/print.h -- what the printers of graphs share (private to fx/). */
#ifndef RUSH_FX_PRINT_H
#define RUSH_FX_PRINT_H

#include "fx/graph.h"

typedef struct fx_printer fx_printer;
struct fx_printer {
  session *s;
  text_buf *out;
  bool code; /* as Python's repr */
  /* Return what a node is called in the text; NULL: by its name. */
  const char *(*node_name)(const fx_printer *p, const fx_node *n);
  void *arg; /* for node_name */
};

void fx_put_arg(const fx_printer *p, const fx_arg *a);
/* Print what the author noted about the node (torch.fx.traceback.annotate), or nothing. */
void fx_print_annotation(session *s, text_buf *out, const fx_node *n);

#endif
