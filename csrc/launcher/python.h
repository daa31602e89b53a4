/* The Python command beside this program. */
#ifndef PSB_LAUNCHER_PYTHON_H
#define PSB_LAUNCHER_PYTHON_H

#define PYTHON_COMMAND "pysandbox-python"

/* Its path, of the program that lies at `self`: free(3). NULL for want of memory. */
char *python_command(const char *self);

#endif
