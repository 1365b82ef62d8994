"""Find, recognise and describe models and dropped files; download in a process."""
