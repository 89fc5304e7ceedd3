/* A program that is linked to libblkkin and does nothing, until its standard input ends. It says when it
 * is there. */
#include <blkkin.h>

#include <unistd.h>

int main(void)
{
	char nothing;

	blkin_init();
	if (write(STDOUT_FILENO, "\n", 1) != 1)
		return 1;
	while (read(STDIN_FILENO, &nothing, 1) > 0)
		;
	return 0;
}
